//! What a row of the table says, and the table.

use crate::{rows, world::World};

pub(crate) type Problem = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Seen = Result<String, Problem>;

/// One behaviour: what is done, and what is seen then.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// Its name, unique.
    pub(crate) name: &'static str,
    /// What is done, for people.
    pub(crate) done: &'static str,
    /// What has to be seen with Meshtoll.
    pub(crate) expected: &'static str,
    /// What has to be seen with Envoy.
    pub(crate) envoy: Envoy,
    /// Does it, and says what it saw.
    pub(crate) run: fn(&mut World) -> Seen,
}

/// What Envoy does, configured from the same resources.
#[derive(Clone, Copy)]
pub(crate) enum Envoy {
    /// The same.
    Same,
    /// Something else, which is asserted too, so that the sentence stays true.
    Differs {
        /// What is seen.
        outcome: &'static str,
        /// Why Meshtoll does otherwise.
        why: &'static str,
    },
    /// It has no such thing.
    NotApplicable {
        /// Why.
        why: &'static str,
    },
}

/// Rows that share a mesh, from the same resources.
#[derive(Clone, Copy)]
pub(crate) struct Group {
    /// Its name.
    pub(crate) name: &'static str,
    /// What its rows are about.
    pub(crate) about: &'static str,
    /// What is in the mesh.
    pub(crate) mesh: Mesh,
    /// Its rows, done in this order.
    pub(crate) rows: &'static [Row],
}

/// A mesh to bring up. Besides, there are always three pods outside of it (`one`, `two`, `three`) and one within its network
/// that has no sidecar (`stranger`).
#[derive(Clone, Copy)]
pub(crate) struct Mesh {
    /// Its Istio resources.
    pub(crate) yaml: &'static [&'static str],
    /// Its services in namespace `app`; the first is the client.
    pub(crate) services: &'static [(&'static str, Kind)],
    /// Whether there is an egress gateway.
    pub(crate) gateway: bool,
    /// Whether hosts that no resource names are refused.
    pub(crate) registry_only: bool,
    /// How long connections may be idle, s, where not for long.
    pub(crate) idle_seconds: Option<u32>,
    /// How long connections may go on after SIGTERM, s, where a subject can be told.
    pub(crate) drain_seconds: Option<u32>,
}

impl Mesh {
    pub(crate) const DEFAULT: Self =
        Self { yaml: &[], services: &[], gateway: false, registry_only: true, idle_seconds: None, drain_seconds: None };
}

/// What a service's pod has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A sidecar, and an application.
    Sidecar,
    /// A sidecar, and an application that speaks first.
    SpeaksFirst,
    /// A sidecar, and an application that speaks TLS itself.
    SpeaksTls,
    /// No sidecar: somebody with another service's certificate answers.
    Impostor,
    /// No sidecar: the application answers without TLS.
    Bare,
}

impl Row {
    /// A row in which both do the same.
    pub(crate) const fn new(
        name: &'static str,
        done: &'static str,
        expected: &'static str,
        run: fn(&mut World) -> Seen,
    ) -> Self {
        Self { name, done, expected, envoy: Envoy::Same, run }
    }

    /// Envoy does this instead.
    pub(crate) const fn differs(self, outcome: &'static str, why: &'static str) -> Self {
        Self { envoy: Envoy::Differs { outcome, why }, ..self }
    }

    /// Envoy has no such thing.
    pub(crate) const fn not_on_envoy(self, why: &'static str) -> Self {
        Self { envoy: Envoy::NotApplicable { why }, ..self }
    }

    /// What has to be seen with a subject, or why that cannot be.
    pub(crate) fn expectation(&self, subject: &str) -> Result<&'static str, &'static str> {
        match self.envoy {
            Envoy::Differs { outcome, .. } if subject == "envoy" => Ok(outcome),
            Envoy::NotApplicable { why } if subject == "envoy" => Err(why),
            _ => Ok(self.expected),
        }
    }
}

pub(crate) const GROUPS: &[Group] = &[
    rows::outbound::GROUP,
    rows::allow_any::GROUP,
    rows::origination::GROUP,
    rows::inbound::GROUP,
    rows::policy::GROUP,
    rows::gateway::GROUP,
    rows::gateway_policy::GROUP,
    rows::relay::GROUP,
    rows::idle::GROUP,
    rows::life::GROUP,
];

/// The rows of all groups.
pub(crate) fn rows() -> impl Iterator<Item = (&'static Group, &'static Row)> {
    GROUPS.iter().flat_map(|group| group.rows.iter().map(move |row| (group, row)))
}
