//! Tests of address classes, in every notation.

use proptest::prelude::*;

use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().expect(text)
}

#[test]
fn addresses_that_are_not_public_are_classified() {
    for (text, expect) in [
        ("127.0.0.1", Some(AddressClass::Loopback)),
        ("127.255.255.254", Some(AddressClass::Loopback)),
        ("10.0.0.1", Some(AddressClass::Private)),
        ("172.16.0.1", Some(AddressClass::Private)),
        ("172.31.255.255", Some(AddressClass::Private)),
        ("192.168.1.1", Some(AddressClass::Private)),
        ("100.64.0.1", Some(AddressClass::Private)),
        ("100.127.255.255", Some(AddressClass::Private)),
        ("169.254.1.1", Some(AddressClass::LinkLocal)),
        ("169.254.169.254", Some(AddressClass::Metadata)),
        ("168.63.129.16", Some(AddressClass::Metadata)),
        ("100.100.100.200", Some(AddressClass::Metadata)),
        ("192.0.0.192", Some(AddressClass::Metadata)),
        ("224.0.0.1", Some(AddressClass::Multicast)),
        ("239.255.255.255", Some(AddressClass::Multicast)),
        ("0.0.0.0", Some(AddressClass::Reserved)),
        ("0.1.2.3", Some(AddressClass::Reserved)),
        ("192.0.2.1", Some(AddressClass::Reserved)),
        ("198.18.0.1", Some(AddressClass::Reserved)),
        ("240.0.0.1", Some(AddressClass::Reserved)),
        ("255.255.255.255", Some(AddressClass::Reserved)),
        ("8.8.8.8", None),
        ("172.32.0.1", None),
        ("100.128.0.1", None),
        ("192.0.1.1", None),
        ("223.255.255.255", None),
        ("::1", Some(AddressClass::Loopback)),
        ("::", Some(AddressClass::Reserved)),
        ("fd00::1", Some(AddressClass::Private)),
        ("fd00:ec2::254", Some(AddressClass::Metadata)),
        ("fd20:ce::254", Some(AddressClass::Metadata)),
        ("fe80::1", Some(AddressClass::LinkLocal)),
        ("fec0::1", Some(AddressClass::LinkLocal)),
        ("ff02::1", Some(AddressClass::Multicast)),
        ("2001:db8::1", Some(AddressClass::Reserved)),
        ("2001:0:4136:e378::1", Some(AddressClass::Reserved)),
        ("100::1", Some(AddressClass::Reserved)),
        ("64:ff9b:1::7f00:1", Some(AddressClass::Reserved)),
        ("2606:4700::1111", None),
        // The same addresses, wrapped.
        ("::ffff:127.0.0.1", Some(AddressClass::Loopback)),
        ("::ffff:169.254.169.254", Some(AddressClass::Metadata)),
        ("::ffff:8.8.8.8", None),
        ("64:ff9b::127.0.0.1", Some(AddressClass::Loopback)),
        ("64:ff9b::10.0.0.1", Some(AddressClass::Private)),
        ("64:ff9b::8.8.8.8", None),
        ("2002:7f00:1::1", Some(AddressClass::Loopback)),
        ("2002:a00:1::", Some(AddressClass::Private)),
        ("2002:808:808::1", None),
        ("::127.0.0.1", Some(AddressClass::Reserved)),
        ("::ffff:0:127.0.0.1", Some(AddressClass::Reserved)),
    ] {
        assert_eq!(classify_address(address(text)), expect, "{text}");
    }
}

#[test]
fn ranges_contain_their_addresses() {
    for (range, inside, outside) in [
        ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
        ("192.168.7.0/24", "192.168.7.255", "192.168.8.0"),
        ("10.0.0.5", "10.0.0.5", "10.0.0.4"),
        ("10.0.0.5/32", "10.0.0.5", "::ffff:10.0.0.5"),
        ("fd00::/8", "fdff::1", "fe00::"),
        ("fd00::1", "fd00::1", "10.0.0.1"),
    ] {
        let read = AddressRange::parse_range(range).expect(range);
        assert!(read.contains_address(address(inside)), "{range} contains {inside}");
        assert!(!read.contains_address(address(outside)), "{range} does not contain {outside}");
    }
}

#[test]
fn invalid_ranges_are_refused() {
    for (range, expect) in [
        ("", RangeProblem::Address),
        ("localhost", RangeProblem::Address),
        ("10.0.0/8", RangeProblem::Address),
        ("10.0.0.0/", RangeProblem::Bits { most: 32 }),
        ("10.0.0.0/33", RangeProblem::Bits { most: 32 }),
        ("fd00::/129", RangeProblem::Bits { most: 128 }),
        ("10.0.0.0/-1", RangeProblem::Bits { most: 32 }),
        ("0.0.0.0/0", RangeProblem::Everything),
        ("::/0", RangeProblem::Everything),
        ("10.0.0.1/8", RangeProblem::NotFirst),
    ] {
        let error = AddressRange::parse_range(range).expect_err(range);
        assert_eq!(error, RangeError { range: range.into(), what: expect });
    }
}

proptest! {
    #[test]
    fn wrapping_an_address_never_makes_it_more_public(bits in any::<u32>()) {
        let plain = Ipv4Addr::from(bits);
        let [a, b, c, d] = plain.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        for wrapped in [
            plain.to_ipv6_mapped(),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
        ] {
            prop_assert_eq!(classify_address(wrapped.into()), classify_address(plain.into()));
        }
    }

    #[test]
    fn a_range_is_its_first_bits(bits in 1_u8..=32, base in any::<u32>(), other in any::<u32>()) {
        let free = 32 - u32::from(bits);
        let first = base.checked_shr(free).and_then(|it| it.checked_shl(free)).unwrap_or(0);
        let range = AddressRange::parse_range(&format!("{}/{bits}", Ipv4Addr::from(first))).expect("a range");
        let same = u64::from(other) >> free == u64::from(base) >> free;
        prop_assert_eq!(range.contains_address(Ipv4Addr::from(other).into()), same);
        prop_assert!(range.contains_address(Ipv4Addr::from(base).into()));
    }
}
