//! Ranges of IPv4 addresses.

use crate::{
    diagnostics::Diagnostics,
    yaml::{Decode, Node},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{fmt, net::Ipv4Addr, str::FromStr};

/// A range of IPv4 addresses in CIDR notation, `10.88.0.0/16`, without bits set behind the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    network: Ipv4Addr,
    prefix: u8,
}

/// Why a text is no range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// There is no slash.
    #[error("`{0}` has no prefix length: write ADDRESS/LENGTH, like 10.88.0.0/16")]
    NoPrefix(String),
    /// What stands before the slash is no IPv4 address.
    #[error("`{0}` is not an IPv4 address: write ADDRESS/LENGTH, like 10.88.0.0/16")]
    Address(String),
    /// What stands after the slash is no number from 0 to 32.
    #[error("`{0}` is not a prefix length: it is a number from 0 to 32")]
    Prefix(String),
    /// The address has bits set behind the prefix: is the address or the prefix meant?
    #[error("{address}/{prefix} has bits set behind its prefix: did you mean {network}/{prefix}?")]
    HostBits {
        /// Address as written.
        address: Ipv4Addr,
        /// Prefix as written.
        prefix: u8,
        /// First address of the range.
        network: Ipv4Addr,
    },
}

impl Cidr {
    /// The range of all addresses that share their first `prefix` bits with `network`.
    pub fn new(network: Ipv4Addr, prefix: u8) -> Result<Self, CidrError> {
        if prefix > 32 {
            return Err(CidrError::Prefix(prefix.to_string()));
        }
        let range = Self::around(network, prefix);
        if range.network != network {
            return Err(CidrError::HostBits { address: network, prefix, network: range.network });
        }
        Ok(range)
    }

    /// The range of `prefix` bits (at most 32) that `address` is in.
    pub const fn around(address: Ipv4Addr, prefix: u8) -> Self {
        let prefix = if prefix > 32 { 32 } else { prefix };
        Self { network: Ipv4Addr::from_bits(address.to_bits() & mask(prefix)), prefix }
    }

    /// Its first address.
    pub fn network(self) -> Ipv4Addr {
        self.network
    }

    /// Length of the prefix in bits.
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    /// Whether the address is in the range.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        address.to_bits() & mask(self.prefix) == self.network.to_bits()
    }

    /// Whether the ranges share an address.
    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other.network) || other.contains(self.network)
    }
}

const fn mask(prefix: u8) -> u32 {
    if prefix == 0 { 0 } else { u32::MAX << (32 - prefix) }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address, prefix) = text.split_once('/').ok_or_else(|| CidrError::NoPrefix(text.into()))?;
        let address = address.parse().map_err(|_| CidrError::Address(address.into()))?;
        let digits = !prefix.is_empty() && prefix.bytes().all(|b| b.is_ascii_digit());
        let prefix = prefix.parse().ok().filter(|_| digits).ok_or_else(|| CidrError::Prefix(prefix.into()))?;
        Self::new(address, prefix)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

impl Serialize for Cidr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cidr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Decode for Cidr {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        String::decode(node, problems)?
            .parse()
            .map_err(|error: CidrError| problems.error(&node.place, error.to_string()))
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses_what_is_no_range() {
        for text in ["", "10.0.0.0", "10.0.0/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "::/0", "10.0.0.0/8/8"] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
        assert_eq!(
            "10.88.0.1/16".parse::<Cidr>().unwrap_err().to_string(),
            "10.88.0.1/16 has bits set behind its prefix: did you mean 10.88.0.0/16?"
        );
    }

    proptest! {
        #[test]
        fn contains_what_shares_the_prefix(bits: u32, other: u32, prefix in 0u8..=32) {
            let network = u64::from(bits) >> (32 - prefix) << (32 - prefix);
            let cidr = Cidr::new(Ipv4Addr::from_bits(network as u32), prefix).unwrap();
            let shares = u64::from(bits) >> (32 - prefix) == u64::from(other) >> (32 - prefix);
            prop_assert_eq!(cidr.contains(Ipv4Addr::from_bits(other)), shares);
            prop_assert!(cidr.contains(Ipv4Addr::from_bits(bits)));
            prop_assert_eq!(cidr.to_string().parse::<Cidr>().unwrap(), cidr);
        }

        #[test]
        fn any_text_is_a_range_or_an_error(text in any::<String>()) {
            let _ = text.parse::<Cidr>();
        }

        #[test]
        fn ranges_overlap_when_one_contains_the_other(a: u32, b: u32, p in 0u8..=32, q in 0u8..=32) {
            let cidr = |bits: u32, prefix: u8| Cidr::new(Ipv4Addr::from_bits(bits & mask(prefix)), prefix).unwrap();
            let (a, b) = (cidr(a, p), cidr(b, q));
            prop_assert_eq!(a.overlaps(b), b.overlaps(a));
            prop_assert_eq!(a.overlaps(b), if p <= q { a.contains(b.network()) } else { b.contains(a.network()) });
        }
    }
}
