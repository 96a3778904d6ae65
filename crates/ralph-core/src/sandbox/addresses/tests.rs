//! Tests of address classes, in every notation.

use proptest::prelude::*;

use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().expect(text)
}

#[test]
fn addresses_that_are_not_public_are_classified() {
    for (text, expect) in [
        ("127.0.0.1", Some(Nearby::Loopback)),
        ("127.255.255.254", Some(Nearby::Loopback)),
        ("10.0.0.1", Some(Nearby::Private)),
        ("172.16.0.1", Some(Nearby::Private)),
        ("172.31.255.255", Some(Nearby::Private)),
        ("192.168.1.1", Some(Nearby::Private)),
        ("100.64.0.1", Some(Nearby::Private)),
        ("100.127.255.255", Some(Nearby::Private)),
        ("169.254.1.1", Some(Nearby::LinkLocal)),
        ("169.254.169.254", Some(Nearby::Metadata)),
        ("168.63.129.16", Some(Nearby::Metadata)),
        ("100.100.100.200", Some(Nearby::Metadata)),
        ("192.0.0.192", Some(Nearby::Metadata)),
        ("224.0.0.1", Some(Nearby::Multicast)),
        ("239.255.255.255", Some(Nearby::Multicast)),
        ("0.0.0.0", Some(Nearby::Reserved)),
        ("0.1.2.3", Some(Nearby::Reserved)),
        ("192.0.2.1", Some(Nearby::Reserved)),
        ("198.18.0.1", Some(Nearby::Reserved)),
        ("240.0.0.1", Some(Nearby::Reserved)),
        ("255.255.255.255", Some(Nearby::Reserved)),
        ("8.8.8.8", None),
        ("172.32.0.1", None),
        ("100.128.0.1", None),
        ("192.0.1.1", None),
        ("223.255.255.255", None),
        ("::1", Some(Nearby::Loopback)),
        ("::", Some(Nearby::Reserved)),
        ("fd00::1", Some(Nearby::Private)),
        ("fd00:ec2::254", Some(Nearby::Metadata)),
        ("fd20:ce::254", Some(Nearby::Metadata)),
        ("fe80::1", Some(Nearby::LinkLocal)),
        ("fec0::1", Some(Nearby::LinkLocal)),
        ("ff02::1", Some(Nearby::Multicast)),
        ("2001:db8::1", Some(Nearby::Reserved)),
        ("2001:0:4136:e378::1", Some(Nearby::Reserved)),
        ("100::1", Some(Nearby::Reserved)),
        ("64:ff9b:1::7f00:1", Some(Nearby::Reserved)),
        ("2606:4700::1111", None),
        // The same addresses, wrapped.
        ("::ffff:127.0.0.1", Some(Nearby::Loopback)),
        ("::ffff:169.254.169.254", Some(Nearby::Metadata)),
        ("::ffff:8.8.8.8", None),
        ("64:ff9b::127.0.0.1", Some(Nearby::Loopback)),
        ("64:ff9b::10.0.0.1", Some(Nearby::Private)),
        ("64:ff9b::8.8.8.8", None),
        ("2002:7f00:1::1", Some(Nearby::Loopback)),
        ("2002:a00:1::", Some(Nearby::Private)),
        ("2002:808:808::1", None),
        ("::127.0.0.1", Some(Nearby::Reserved)),
        ("::ffff:0:127.0.0.1", Some(Nearby::Reserved)),
    ] {
        assert_eq!(nearby(address(text)), expect, "{text}");
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
        let read = Range::read(range).expect(range);
        assert!(read.contains(address(inside)), "{range} contains {inside}");
        assert!(!read.contains(address(outside)), "{range} does not contain {outside}");
    }
}

#[test]
fn invalid_ranges_are_refused() {
    for (range, expect) in [
        ("", RangeMistake::Address),
        ("localhost", RangeMistake::Address),
        ("10.0.0/8", RangeMistake::Address),
        ("10.0.0.0/", RangeMistake::Bits { most: 32 }),
        ("10.0.0.0/33", RangeMistake::Bits { most: 32 }),
        ("fd00::/129", RangeMistake::Bits { most: 128 }),
        ("10.0.0.0/-1", RangeMistake::Bits { most: 32 }),
        ("0.0.0.0/0", RangeMistake::Everything),
        ("::/0", RangeMistake::Everything),
        ("10.0.0.1/8", RangeMistake::Inside),
    ] {
        let error = Range::read(range).expect_err(range);
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
            prop_assert_eq!(nearby(wrapped.into()), nearby(plain.into()));
        }
    }

    #[test]
    fn a_range_is_its_first_bits(bits in 1_u8..=32, base in any::<u32>(), other in any::<u32>()) {
        let free = 32 - u32::from(bits);
        let first = base.checked_shr(free).and_then(|it| it.checked_shl(free)).unwrap_or(0);
        let range = Range::read(&format!("{}/{bits}", Ipv4Addr::from(first))).expect("a range");
        let same = u64::from(other) >> free == u64::from(base) >> free;
        prop_assert_eq!(range.contains(Ipv4Addr::from(other).into()), same);
        prop_assert!(range.contains(Ipv4Addr::from(base).into()));
    }
}
