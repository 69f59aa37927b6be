//! TLS that a sidecar speaks for its application, to hosts outside of the mesh.

use crate::{
    client::meet,
    table::{Group, Kind, Mesh, Row},
};

const YAML: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: simple, namespace: app}
spec: {hosts: [simple.example], addresses: [10.99.2.1], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.11, ports: {tcp: 443}}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: simple, namespace: app}
spec: {host: simple.example, trafficPolicy: {tls: {mode: SIMPLE, caCertificates: /dev/shm/pods/client/sidecar/external-ca.pem}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: untrusted, namespace: app}
spec: {hosts: [untrusted.example], addresses: [10.99.2.2], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.11, ports: {tcp: 8447}}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: untrusted, namespace: app}
spec: {host: untrusted.example, trafficPolicy: {tls: {mode: SIMPLE, caCertificates: /dev/shm/pods/client/sidecar/external-ca.pem}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: wrong, namespace: app}
spec: {hosts: [wrong.invalid], addresses: [10.99.2.3], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.11, ports: {tcp: 443}}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: wrong, namespace: app}
spec: {host: wrong.invalid, trafficPolicy: {tls: {mode: SIMPLE, caCertificates: /dev/shm/pods/client/sidecar/external-ca.pem}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: alias, namespace: app}
spec: {hosts: [alias.invalid], addresses: [10.99.2.4], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.12, ports: {tcp: 443}}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: alias, namespace: app}
spec: {host: alias.invalid, trafficPolicy: {tls: {mode: SIMPLE, sni: sent.example, subjectAltNames: [real.example], caCertificates: /dev/shm/pods/client/sidecar/external-ca.pem}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: mutual, namespace: app}
spec: {hosts: [mutual.example], addresses: [10.99.2.5], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.13, ports: {tcp: 8446}}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: mutual, namespace: app}
spec: {host: mutual.example, trafficPolicy: {tls: {mode: MUTUAL, caCertificates: /dev/shm/pods/client/sidecar/external-ca.pem, clientCertificate: /dev/shm/pods/client/sidecar/partner-chain.pem, privateKey: /dev/shm/pods/client/sidecar/partner-key.pem}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: nothing-presented, namespace: app}
spec: {hosts: [nothing.example], addresses: [10.99.2.6], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.13, ports: {tcp: 8446}}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: nothing-presented, namespace: app}
spec: {host: nothing.example, trafficPolicy: {tls: {mode: SIMPLE, caCertificates: /dev/shm/pods/client/sidecar/external-ca.pem}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: plain, namespace: app}
spec: {hosts: [plain.example], addresses: [10.99.2.7], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.11}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: plain, namespace: app}
spec: {host: plain.example, trafficPolicy: {tls: {mode: DISABLE}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: not-tls, namespace: app}
spec: {hosts: [not-tls.example], addresses: [10.99.2.8], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.11}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: not-tls, namespace: app}
spec: {host: not-tls.example, trafficPolicy: {tls: {mode: SIMPLE, caCertificates: /dev/shm/pods/client/sidecar/external-ca.pem}}}
";

pub(crate) const GROUP: Group = Group {
    name: "origination",
    about: "TLS that a sidecar speaks for its application, to hosts outside of the mesh (`DestinationRule`).",
    mesh: Mesh { yaml: &[YAML], services: &[("client", Kind::Sidecar)], ..Mesh::DEFAULT },
    rows: &[
        Row::new(
            "originate_simple",
            "a plain connection to a host with a DestinationRule that says SIMPLE",
            "reaches one as simple.example",
            |world| meet(world.connect("client", "10.99.2.1:9001")),
        ),
        Row::new(
            "originate_untrusted",
            "the same, to a server with a certificate of another authority",
            "refused",
            |world| meet(world.connect("client", "10.99.2.2:9001")),
        ),
        Row::new(
            "originate_wrong_name",
            "the same, to a server with a certificate for other names",
            "refused",
            |world| meet(world.connect("client", "10.99.2.3:9001")),
        ),
        Row::new(
            "originate_names",
            "the same, with a server name to send and another to demand",
            "reaches two as sent.example",
            |world| meet(world.connect("client", "10.99.2.4:9001")),
        ),
        Row::new(
            "originate_mutual",
            "a plain connection to a host with a DestinationRule that says MUTUAL",
            "reaches three as mutual.example",
            |world| meet(world.connect("client", "10.99.2.5:9001")),
        ),
        Row::new("originate_nothing_presented", "SIMPLE to a server that demands a certificate", "refused", |world| {
            meet(world.connect("client", "10.99.2.6:9001"))
        }),
        Row::new(
            "originate_disabled",
            "a plain connection to a host with a DestinationRule that says DISABLE",
            "reaches one",
            |world| meet(world.connect("client", "10.99.2.7:9001")),
        ),
        Row::new("originate_to_plain_server", "SIMPLE to a server that does not speak TLS", "refused", |world| {
            meet(world.connect("client", "10.99.2.8:9001"))
        }),
    ],
};
