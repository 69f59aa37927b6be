//! Routes by server name, in an order in which the first match is the one that Istio's proxies would choose.

use meshtoll_model::host::HostPattern;

/// Groups names by where they lead, the most specific first. Envoy chooses the most specific server name whatever the
/// order of resources; a route with names of different specificity is split, where another comes between.
pub(crate) fn most_specific_first<T: PartialEq>(mut routes: Vec<(HostPattern, T)>) -> Vec<(Vec<String>, T)> {
    routes.sort_by_key(|(name, _)| name.specificity());
    let mut ordered: Vec<(Vec<String>, T)> = Vec::new();
    for (name, target) in routes {
        match ordered.last_mut() {
            Some((names, last)) if *last == target => names.push(name.to_string()),
            _ => ordered.push((vec![name.to_string()], target)),
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn route(name: &str, target: u8) -> (HostPattern, u8) {
        (name.parse().unwrap(), target)
    }

    #[test]
    fn a_route_is_split_where_another_comes_between() {
        let routes = vec![route("*.example", 1), route("a.b.example", 1), route("*.b.example", 2)];
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            most_specific_first(routes),
            [(names(&["a.b.example"]), 1), (names(&["*.b.example"]), 2), (names(&["*.example"]), 1)]
        );
    }

    proptest! {
        #[test]
        fn the_first_match_is_the_most_specific(
            routes in prop::collection::vec((r"(\*\.)?[ab](\.[ab]){0,2}", 0u8..3), 0..6), name in "[ab](\\.[ab]){0,3}"
        ) {
            let routes: Vec<_> = routes.iter().map(|(name, target)| route(name, *target)).collect();
            let matching = routes.iter().filter(|(pattern, _)| pattern.matches(&name));
            let best = matching.min_by_key(|(pattern, _)| pattern.specificity()).map(|(_, target)| *target);
            let matches = |names: &[String]| names.iter().any(|own| own.parse::<HostPattern>().unwrap().matches(&name));
            let ordered = most_specific_first(routes.clone());
            let first = ordered.iter().find(|(names, _)| matches(names)).map(|(_, target)| *target);
            prop_assert_eq!(first, best);
        }
    }
}
