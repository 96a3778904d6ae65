//! Classifies addresses: a name may only resolve to public ones and to those that the user allows.
//!
//! The owner of a name on the allowlist controls its address. Without this check, it could point at
//! a service of this machine or of the local network.
//!
//! The caller looks names up, and knows the addresses of this machine.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fmt;

use serde::{Deserialize, Serialize};

/// The class of an address that is not public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AddressClass {
    Loopback,
    /// A home or company network, or a provider's network behind carrier-grade NAT.
    Private,
    LinkLocal,
    /// A cloud service that hands out credentials to virtual machines.
    Metadata,
    Multicast,
    /// Unreachable: unspecified, reserved, for documentation.
    Reserved,
    /// A public address of this machine.
    Own,
}

impl AddressClass {
    /// Returns the description for messages.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "the address of a metadata service",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
            Self::Own => "an address of this machine",
        }
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.describe())
    }
}

/// Returns the class of an address; `None` if it is public.
pub fn classify_address(address: IpAddr) -> Option<AddressClass> {
    match resolve_embedded(address) {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

/// Returns the final destination of an address: the IPv4 address inside mapped, 6to4 and NAT64
/// ones.
pub fn resolve_embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let inner = match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => (u32::from(high) << 16) | u32::from(low),
        _ => return address,
    };
    IpAddr::V4(Ipv4Addr::from(inner))
}

fn classify_v4(address: Ipv4Addr) -> Option<AddressClass> {
    // The services of Azure, Alibaba and Oracle; the others use 169.254.169.254.
    const METADATA: [[u8; 4]; 4] =
        [[169, 254, 169, 254], [168, 63, 129, 16], [100, 100, 100, 200], [192, 0, 0, 192]];
    let octets = address.octets();
    if METADATA.contains(&octets) {
        return Some(AddressClass::Metadata);
    }
    match octets {
        [127, ..] => Some(AddressClass::Loopback),
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] | [100, 64..=127, ..] => {
            Some(AddressClass::Private)
        }
        [169, 254, ..] => Some(AddressClass::LinkLocal),
        [224..=239, ..] => Some(AddressClass::Multicast),
        [0 | 240..=255, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => Some(AddressClass::Reserved),
        _ => None,
    }
}

/// Only global unicast is public, `2000::/3`; new kinds of addresses are refused until known.
fn classify_v6(address: Ipv6Addr) -> Option<AddressClass> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(AddressClass::Loopback),
        [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => {
            Some(AddressClass::Metadata)
        }
        [0xfc00..=0xfdff, ..] => Some(AddressClass::Private),
        // The second half of the range is the former site-local addresses.
        [0xfe80..=0xfeff, ..] => Some(AddressClass::LinkLocal),
        [0xff00..=0xffff, ..] => Some(AddressClass::Multicast),
        // Teredo and other experiments; documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some(AddressClass::Reserved),
        [0x2000..=0x3fff, ..] => None,
        _ => Some(AddressClass::Reserved),
    }
}

/// A range of addresses, such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    address: IpAddr,
    bits: u8,
}

impl AddressRange {
    /// Parses `ADDRESS/BITS`, or one address.
    pub fn parse_range(text: &str) -> Result<Self, RangeError> {
        let error = |what| RangeError { range: text.to_owned(), what };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| error(RangeProblem::Address))?;
        let most = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        let bits = match bits {
            None => most,
            Some(bits) => match bits.parse() {
                Ok(0) => return Err(error(RangeProblem::Everything)),
                Ok(bits) if bits <= most => bits,
                Ok(_) | Err(_) => return Err(error(RangeProblem::Bits { most })),
            },
        };
        let range = Self { address, bits };
        if range.mask_address(address) != range.first_number() {
            return Err(error(RangeProblem::NotFirst));
        }
        Ok(range)
    }

    /// Returns whether an address is in the range.
    pub fn contains_address(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && self.mask_address(address) == self.first_number()
    }

    fn first_number(&self) -> u128 {
        to_number(self.address)
    }

    /// Returns the bits of an address that the range fixes.
    fn mask_address(&self, address: IpAddr) -> u128 {
        let most = if address.is_ipv4() { 32 } else { 128 };
        let free = u32::from(most - self.bits);
        to_number(address).checked_shr(free).and_then(|it| it.checked_shl(free)).unwrap_or(0)
    }
}

fn to_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

/// A range that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{range}`: {what}")]
pub struct RangeError {
    pub range: String,
    pub what: RangeProblem,
}

/// What is wrong with a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RangeProblem {
    #[error("it does not begin with an address; write for example \"10.0.0.0/8\"")]
    Address,
    #[error("after `/` there must be a number from 1 to {most}")]
    Bits {
        /// The number of bits of an address.
        most: u8,
    },
    #[error("it would let every address through")]
    Everything,
    /// An address inside the range instead of its first one.
    #[error("the address has bits beyond those that the range fixes")]
    NotFirst,
}

#[cfg(test)]
mod tests;
