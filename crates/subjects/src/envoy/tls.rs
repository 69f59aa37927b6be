//! Mutual TLS with the mesh's certificates, and TLS to hosts outside of it, as Istio configures them.

use meshtoll_model::ids::SpiffeId;
use meshtoll_policy::routes::Origination;
use serde_json::{Value, json};
use std::path::Path;

pub(super) const CERTIFICATE_CHAIN: &str = "cert-chain.pem";
pub(super) const PRIVATE_KEY: &str = "key.pem";
pub(super) const TRUST_BUNDLE: &str = "root-cert.pem";

/// Where Debian, and so Istio's proxy image, has the public authorities.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// What sidecars and gateways say they speak inside TLS of the mesh.
const ALPN: &str = "istio";
/// What Istio's proxies may say: a permissive port tells the mesh's TLS from an application's by these.
pub(super) const ISTIO_ALPN: [&str; 5] = [ALPN, "istio-peer-exchange", "istio-http/1.0", "istio-http/1.1", "istio-h2"];

/// The transport socket of an upstream that has to be `peer`.
pub(super) fn upstream(sni: &str, peer: &SpiffeId) -> Value {
    json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "sni": sni,
            "common_tls_context": context(json!({ "exact": peer.to_string() })),
        },
    })
}

/// The transport socket of an upstream outside of the mesh. A server whose names are not listed has to have the one that
/// it is asked for by.
pub(super) fn origination(origination: &Origination) -> Value {
    let Origination { sni, subject_alt_names, ca_certificates, client } = origination;
    let names = if subject_alt_names.is_empty() { std::slice::from_ref(sni) } else { subject_alt_names };
    let names: Vec<Value> =
        names.iter().map(|name| json!({ "san_type": "DNS", "matcher": { "exact": name } })).collect();
    let authorities = ca_certificates.as_deref().unwrap_or(Path::new(SYSTEM_AUTHORITIES));
    let mut context = json!({
        "tls_params": { "tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3" },
        "validation_context": {
            "trusted_ca": { "filename": authorities },
            "match_typed_subject_alt_names": names,
        },
    });
    if let Some(client) = client {
        context["tls_certificates"] = json!([{
            "certificate_chain": { "filename": client.chain },
            "private_key": { "filename": client.key },
        }]);
    }
    json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "sni": sni,
            "common_tls_context": context,
        },
    })
}

/// The transport socket of a filter chain whose peers have to be workloads of the trust domain.
pub(super) fn downstream(trust_domain: &str) -> Value {
    json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            "require_client_certificate": true,
            "common_tls_context": context(json!({ "prefix": format!("spiffe://{trust_domain}/") })),
        },
    })
}

fn context(peer_uri: Value) -> Value {
    json!({
        "alpn_protocols": [ALPN],
        "tls_params": { "tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3" },
        "tls_certificates": [{
            "certificate_chain": { "filename": CERTIFICATE_CHAIN },
            "private_key": { "filename": PRIVATE_KEY },
        }],
        "validation_context": {
            "trusted_ca": { "filename": TRUST_BUNDLE },
            "match_typed_subject_alt_names": [{ "san_type": "URI", "matcher": peer_uri }],
        },
    })
}
