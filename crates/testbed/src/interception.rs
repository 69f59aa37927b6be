//! Interception as Istio's: what enters or leaves a pod by TCP goes through its proxy, by nftables rules in the
//! pod's own network namespace.
//!
//! The rules are those that `istio-iptables` writes in its REDIRECT mode, under the same chain names
//! (<https://istio.io/latest/docs/ops/deployment/application-requirements/>, `tools/istio-iptables` in
//! istio/istio). Not taken over: IPv6 (pods have none), DNS capture, HBONE, and the owner match by gid. With port 9090 and the
//! block 10.88.0.0/16 excluded they are:
//!
//! ```text
#![doc = include_str!("interception.nft")]
//! ```

use meshtoll_model::{
    cidr::Cidr,
    topology::{ADMIN_PORT, INBOUND_PORT, OUTBOUND_PORT, PROXY_MARK, PROXY_UID, ProxyMarking},
};

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn interception(marking: ProxyMarking) -> Interception {
        Interception {
            inbound_ports_excluded: vec![9090],
            excluded_outbound: vec![Cidr::around(Ipv4Addr::new(10, 88, 0, 0), 16)],
            marking,
        }
    }

    #[test]
    fn rules_are_those_that_are_documented() {
        assert_eq!(interception(ProxyMarking::Uid).ruleset(), include_str!("interception.nft"));
    }

    #[test]
    fn rules_by_mark_differ_only_in_how_the_proxy_is_known() {
        let by_uid = interception(ProxyMarking::Uid).ruleset();
        let by_mark = interception(ProxyMarking::SocketMark).ruleset();
        assert_eq!(by_uid.replace("meta skuid", "meta mark"), by_mark);
    }
}
