//! Which addresses are public: what a name that a client chose may lead to.

use meshtoll_model::cidr::Cidr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 ranges that are not public, of the IANA registry of special-purpose addresses (RFC 6890), with multicast.
const NOT_PUBLIC_V4: &[(Ipv4Addr, u8)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),       // this network; 0.0.0.0 connects to this machine
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // shared (carrier-grade NAT)
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link-local; clouds serve credentials there
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),     // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),     // reserved, broadcast
];

/// What is public of IPv6 at all: everything else is loopback, unique local, link-local, multicast, or not given out.
const GLOBAL_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// IPv6 ranges that are not public within [`GLOBAL_V6`].
const NOT_PUBLIC_V6: &[(Ipv6Addr, u8)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments, Teredo (which holds IPv4 addresses)
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4 (which holds IPv4 addresses)
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// NAT64's well-known prefix (RFC 6052): such an address leads to the IPv4 address in its last four bytes.
const NAT64: (Ipv6Addr, u8) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Whether an address that a client's name leads to may be connected to: it is public, or in a range of `allowed`.
pub(super) fn is_allowed(address: IpAddr, allowed: &[Cidr]) -> bool {
    let four = match address {
        IpAddr::V4(four) => Some(four),
        IpAddr::V6(six) if is_in_v6(six, NAT64) => Some(Ipv4Addr::from_bits(six.to_bits() as u32)),
        IpAddr::V6(six) => six.to_ipv4_mapped(),
    };
    match (four, address) {
        (Some(four), _) | (None, IpAddr::V4(four)) => {
            let is_special =
                NOT_PUBLIC_V4.iter().any(|(network, prefix)| Cidr::around(*network, *prefix).contains(four));
            !is_special || allowed.iter().any(|range| range.contains(four))
        }
        (None, IpAddr::V6(six)) => is_in_v6(six, GLOBAL_V6) && !NOT_PUBLIC_V6.iter().any(|range| is_in_v6(six, *range)),
    }
}

fn is_in_v6(address: Ipv6Addr, (network, prefix): (Ipv6Addr, u8)) -> bool {
    (address.to_bits() ^ network.to_bits()).leading_zeros() >= prefix.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses_are_told_from_others() {
        for public in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450::1",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
        ] {
            assert!(is_allowed(public.parse().unwrap(), &[]), "{public}");
        }
        for other in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0.0.0.0",
            "::ffff:169.254.169.254",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:a00:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_allowed(other.parse().unwrap(), &[]), "{other}");
        }
    }

    #[test]
    fn ranges_can_be_allowed() {
        let allowed = ["10.89.0.0/16".parse().unwrap()];
        for (address, is_it) in [
            ("10.89.0.1", true),
            ("::ffff:10.89.0.1", true),
            ("64:ff9b::10.89.0.1", true),
            ("10.88.0.1", false),
            ("::ffff:10.88.0.1", false),
            ("fd00::1", false),
        ] {
            assert_eq!(is_allowed(address.parse().unwrap(), &allowed), is_it, "{address}");
        }
    }
}
