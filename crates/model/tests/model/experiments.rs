//! The experiments that come with Meshtoll are right.

use crate::folder;

#[test]
fn egress() {
    let folder = folder::experiments().join("egress");
    let checked = folder::check(&folder).unwrap_or_else(|problems| panic!("{problems}"));
    let cases: Vec<_> = checked.experiment.cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(cases, ["bypass", "sidecar", "gateway", "gateway-mtls", "gateway-sni", "gateway-wildcard"]);
    assert!(checked.experiment.cases.iter().all(|case| checked.resources.contains_key(&case.name)));
    let levels: Vec<_> = checked.experiment.profiles["quick"].levels().map(|level| level.to_string()).collect();
    assert_eq!(levels, ["1 client", "5 clients", "20 clients", "60 clients", "500 requests/s"]);
}
