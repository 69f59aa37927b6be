//! Interception as Istio's: what enters or leaves a pod by TCP goes through its proxy, by nftables rules in the
//! pod's own network namespace.
//!
//! The rules are those that `istio-iptables` writes in its REDIRECT mode, under the same chain names
//! (<https://istio.io/latest/docs/ops/deployment/application-requirements/>, `tools/istio-iptables` in
//! istio/istio). Not taken over: IPv6 (pods have none), DNS capture, and the owner match by gid.

use meshtoll_model::topology::{ADMIN_PORT, INBOUND_PORT, OUTBOUND_PORT, PROXY_MARK, PROXY_UID, ProxyMarking};
use std::{fmt, net::Ipv4Addr, str::FromStr};

/// Ports of a pod that are never redirected: the proxy's administration, agent metrics, health and Prometheus.
const PROXY_PORTS: [u16; 4] = [ADMIN_PORT, 15020, 15021, 15090];

/// Which of a pod's TCP connections its proxy gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interception {
    /// Ports whose inbound connections go straight to the application, besides the proxy's own ports
    /// (15000, 15020, 15021 and 15090).
    pub inbound_ports_excluded: Vec<u16>,
    /// Destinations that the application reaches past the proxy (`-x` of `istio-iptables`).
    pub excluded_outbound: Vec<Cidr>,
    /// How the proxy's own connections are known.
    pub marking: ProxyMarking,
}

impl Interception {
    /// The rules as input for `nft -f -`.
    pub fn ruleset(&self) -> String {
        let admin_ports = PROXY_PORTS.iter().chain(&self.inbound_ports_excluded).map(u16::to_string);
        let ports = admin_ports.collect::<Vec<_>>().join(", ");
        let proxy = |operator: &str| match self.marking {
            ProxyMarking::Uid => format!("meta skuid {operator}{PROXY_UID}"),
            ProxyMarking::SocketMark => format!("meta mark {operator}{PROXY_MARK}"),
        };
        let (by_proxy, by_others) = (proxy(""), proxy("!= "));
        let excluded: String =
            self.excluded_outbound.iter().map(|cidr| format!("        ip daddr {cidr} return\n")).collect();
        format!(
            r#"table ip istio {{
    chain PREROUTING {{
        type nat hook prerouting priority dstnat; policy accept;
        meta l4proto tcp jump ISTIO_INBOUND
    }}
    chain OUTPUT {{
        type nat hook output priority -100; policy accept;
        meta l4proto tcp jump ISTIO_OUTPUT
    }}
    chain ISTIO_INBOUND {{
        tcp dport {{ {ports} }} return
        jump ISTIO_IN_REDIRECT
    }}
    chain ISTIO_OUTPUT {{
        # What the proxy passes to its application keeps away from the proxy by this source address.
        ip saddr 127.0.0.6 oifname "lo" return
        # The proxy calls its own pod by the pod's address: in through the proxy again, as if from outside.
        ip daddr != 127.0.0.1 oifname "lo" {by_proxy} jump ISTIO_IN_REDIRECT
        # The application calls its own pod: straight.
        oifname "lo" {by_others} return
        # What the proxy sends goes out.
        {by_proxy} return
        ip daddr 127.0.0.1 return
{excluded}        jump ISTIO_REDIRECT
    }}
    chain ISTIO_REDIRECT {{
        meta l4proto tcp redirect to :{OUTBOUND_PORT}
    }}
    chain ISTIO_IN_REDIRECT {{
        meta l4proto tcp redirect to :{INBOUND_PORT}
    }}
}}
"#
        )
    }
}

/// A block of IPv4 addresses, `ADDRESS/PREFIX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    address: Ipv4Addr,
    prefix: u8,
}

/// Why a text is no block of addresses.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CidrError {
    /// Not `ADDRESS/PREFIX` with a prefix of 0 to 32.
    #[error("`{0}` is no block of IPv4 addresses: write ADDRESS/PREFIX, such as 10.88.0.0/16")]
    Malformed(String),
    /// Bits after the prefix are set, so the block is not the one that was meant.
    #[error("`{0}` has address bits after its prefix: write {1}")]
    HostBits(String, Cidr),
}

impl Cidr {
    /// The block of `prefix` bits (at most 32) that `address` is in.
    pub const fn around(address: Ipv4Addr, prefix: u8) -> Self {
        let prefix = if prefix > 32 { 32 } else { prefix };
        let mask = if prefix == 0 { 0 } else { u32::MAX << (32 - prefix) };
        Self { address: Ipv4Addr::from_bits(address.to_bits() & mask), prefix }
    }

    /// Whether `address` is in the block.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        Self::around(address, self.prefix) == self
    }

    /// Number of bits that all its addresses share.
    pub fn prefix(self) -> u8 {
        self.prefix
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let malformed = || CidrError::Malformed(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(malformed)?;
        let address: Ipv4Addr = address.parse().map_err(|_| malformed())?;
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= 32).ok_or_else(malformed)?;
        let block = Self::around(address, prefix);
        if block.address == address { Ok(block) } else { Err(CidrError::HostBits(text.to_owned(), block)) }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn interception(marking: ProxyMarking) -> Interception {
        Interception {
            inbound_ports_excluded: vec![9090],
            excluded_outbound: vec!["10.88.0.0/16".parse().unwrap()],
            marking,
        }
    }

    #[test]
    fn rules_by_uid() {
        insta::assert_snapshot!(interception(ProxyMarking::Uid).ruleset());
    }

    #[test]
    fn rules_by_mark_differ_only_in_how_the_proxy_is_known() {
        let by_uid = interception(ProxyMarking::Uid).ruleset();
        let by_mark = interception(ProxyMarking::SocketMark).ruleset();
        assert_eq!(by_uid.replace("meta skuid", "meta mark"), by_mark);
    }

    #[test]
    fn says_what_is_wrong_with_a_block() {
        let host_bits: Result<Cidr, _> = "10.88.0.1/16".parse();
        assert_eq!(host_bits.unwrap_err().to_string(), "`10.88.0.1/16` has address bits after its prefix: write 10.88.0.0/16");
        for text in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/-1", "a/8"] {
            assert_eq!(text.parse::<Cidr>(), Err(CidrError::Malformed(text.into())));
        }
    }

    proptest! {
        #[test]
        fn a_block_is_read_as_it_is_written(bits: u32, prefix in 0_u8..=32) {
            let block = Cidr::around(Ipv4Addr::from_bits(bits), prefix);
            prop_assert_eq!(block.to_string().parse(), Ok(block));
            prop_assert!(block.contains(Ipv4Addr::from_bits(bits)));
        }
    }
}
