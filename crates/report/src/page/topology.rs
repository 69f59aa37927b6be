//! A case drawn: from a service's pod by way of the mesh to the database outside.

use super::chart::{Name, svg};
use crate::results::Case;
use maud::{Markup, html};
use meshtoll_model::process::Role;

/// Middle of the boxes, and of the line through them.
const MIDDLE: f64 = 110.0;
/// Where the line runs that goes past the sidecar.
const PAST: f64 = 162.0;

/// The drawing of one case. Cases share one grid, so that side by side their pods are at the same height.
pub(super) fn topology(case: &Case, services: usize) -> Markup {
    let has = |role| case.path.contains(&role);
    let (sidecar, gateway, second) = (has(Role::Sidecar), has(Role::Gateway), has(Role::SniProxy));
    let name = Name {
        id: format!("topology-{}", case.name),
        title: format!("Path of database traffic in {}", case.name),
        description: description(case, services),
    };
    let pods =
        if services == 1 { "pod of the service".to_owned() } else { format!("pod of each of {services} services") };
    let body = html! {
        (pod(8.0, 150.0, &pods))
        (process(MIDDLE, 32.0, 150.0, "service", "proc app"))
        @if sidecar {
            (process(MIDDLE, 110.0, 150.0, "sidecar", "proc mesh"))
        } @else {
            (process(80.0, 110.0, 110.0, "sidecar", "proc mesh aside"))
        }
        @if gateway {
            (pod(204.0, if second { 146.0 } else { 68.0 }, "gateway pod"))
            (process(MIDDLE, 228.0, 150.0, "gateway", "proc mesh"))
        }
        @if second {
            (process(MIDDLE, 304.0, 150.0, "SNI proxy", "proc mesh"))
        }
        line.boundary x1="0" x2="220" y1="368" y2="368" {}
        text.small x="0" y="382" { "outside the mesh" }
        (database(392.0))
        @if sidecar {
            (leg(66.0, 110.0, 92.0, "TLS"))
            @if gateway {
                @if case.mesh_mtls {
                    (tunnel(144.0, 228.0))
                    text.small x=(MIDDLE + 14.0) y="192" { "in mutual TLS" }
                }
                (leg(144.0, 228.0, if case.mesh_mtls { 178.0 } else { 185.0 }, "TLS"))
                @if second {
                    (leg(262.0, 304.0, 287.0, "TLS"))
                    (leg(338.0, 392.0, 362.0, "TLS"))
                } @else {
                    (leg(262.0, 392.0, 320.0, "TLS"))
                }
            } @else {
                (leg(144.0, 392.0, 270.0, "TLS"))
            }
        } @else {
            path.tls d={ "M" (PAST) " 66 V392" } {}
            polygon.arrow points={ (PAST) ",392 " (PAST - 4.5) ",383 " (PAST + 4.5) ",383" } {}
            text.small x=(PAST + 10.0) y="270" { "TLS" }
        }
    };
    svg(&name, "topology", 220.0, 440.0, body)
}

/// What the line styles mean.
pub(super) fn legend() -> Markup {
    html! {
        p.legend aria-hidden="true" {
            span {
                svg.key viewBox="0 0 34 16" { line.tls x1="2" x2="32" y1="8" y2="8" {} }
                " the application’s own TLS, from service to database"
            }
            span {
                svg.key viewBox="0 0 34 16" {
                    rect.tunnel x="2" y="1" width="30" height="14" rx="4" {}
                    line.tls x1="2" x2="32" y1="8" y2="8" {}
                }
                " the mesh’s mutual TLS around it"
            }
        }
    }
}

fn description(case: &Case, services: usize) -> String {
    let mut stations = vec![format!("each of {services} services")];
    let hops = case.path.iter().map(|role| match role {
        Role::Sidecar => "its sidecar",
        Role::Gateway if case.mesh_mtls => "the egress gateway (mutual TLS from sidecar to gateway)",
        Role::Gateway => "the egress gateway",
        Role::SniProxy => "the SNI proxy in the gateway’s pod",
        Role::Service | Role::Database | Role::Load | Role::Testbed => "another process",
    });
    stations.extend(hops.map(str::to_owned));
    let past = if case.path.is_empty() { ", past its sidecar" } else { "" };
    format!(
        "The application’s own TLS goes from {} to the database outside the mesh{past}.",
        stations.join(" through ")
    )
}

fn pod(top: f64, height: f64, label: &str) -> Markup {
    html! {
        rect.pod x="8" y=(top) width="204" height=(height) rx="10" {}
        text.small x="18" y=(top + 16.0) { (label) }
    }
}

fn process(middle: f64, top: f64, width: f64, label: &str, class: &str) -> Markup {
    html! {
        rect class=(class) x=(middle - width / 2.0) y=(top) width=(width) height="34" rx="5" {}
        text.name x=(middle) y=(top + 21.5) text-anchor="middle" { (label) }
    }
}

fn database(top: f64) -> Markup {
    html! {
        path.proc.base d={
            "M35 " (top + 7.0) " a75 7 0 0 1 150 0 v28 a75 7 0 0 1 -150 0 z M35 " (top + 7.0) " a75 7 0 0 0 150 0"
        } {}
        text.name x=(MIDDLE) y=(top + 30.0) text-anchor="middle" { "database" }
    }
}

/// Mutual TLS around a leg.
fn tunnel(from: f64, to: f64) -> Markup {
    html! { rect.tunnel x=(MIDDLE - 9.0) y=(from + 1.0) width="18" height=(to - from - 2.0) rx="5" {} }
}

/// A leg of the way down, with its label at the height `beside`.
fn leg(from: f64, to: f64, beside: f64, label: &str) -> Markup {
    html! {
        path.tls d={ "M" (MIDDLE) " " (from) " V" (to) } {}
        polygon.arrow points={ (MIDDLE) "," (to) " " (MIDDLE - 4.5) "," (to - 9.0) " " (MIDDLE + 4.5) "," (to - 9.0) } {}
        text.small x=(MIDDLE + 14.0) y=(beside) { (label) }
    }
}
