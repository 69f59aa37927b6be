//! A database that runs elsewhere, in the place of docstore.

use meshtoll_apps::airline::{ExternalUri, ExternalUriError, external_uri};
use meshtoll_model::{
    experiment::Experiment,
    ids::{CaseName, SubjectName},
};

/// A MongoDB outside of the testbed, which a relay in the database's pod stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalDatabase {
    /// Where it is, which is also what the report calls it; and its URI as seen from inside.
    pub location: ExternalUri,
    /// The CA that its certificate is verified with, PEM; the public ones when there is none.
    pub ca_pem: Option<String>,
}

impl ExternalDatabase {
    /// The database of a `mongodb://` URI, for an experiment. Inside it goes by the experiment's name of the database, which is
    /// the one that the mesh routes by: its certificate has to be valid for that name.
    pub fn new(uri: &str, ca_pem: Option<String>, experiment: &Experiment) -> Result<Self, ExternalUriError> {
        let inside = &experiment.database;
        Ok(Self { location: external_uri(uri, &inside.host, inside.port)?, ca_pem })
    }
}

/// The database of a topology: all topologies of a run are up at once and share the server, and each needs its data for itself.
pub(super) fn database_name(case: &CaseName, subject: &SubjectName) -> String {
    format!("airline_{case}_{subject}").replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_named_after_case_and_subject() {
        assert_eq!(database_name(&"gateway-mtls".into(), &"envoy".into()), "airline_gateway_mtls_envoy");
    }

    #[test]
    fn credentials_are_not_shown() {
        let location = external_uri("mongodb://ada:lovelace@db/?tls=true", "airline.mongodb.example", 27017).unwrap();
        let shown = format!("{:?}", ExternalDatabase { location, ca_pem: None });
        assert!(shown.contains("db:27017") && !shown.contains("lovelace"), "{shown}");
    }
}
