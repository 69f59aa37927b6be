//! Names that routes match, for proxies that prefer the most specific name where routes prefer the first.

use crate::Unsupported;
use meshtoll_model::ids::HopName;

/// The routes with those of their names that a connection can reach, in the order of the routes.
///
/// The first match wins in routes, the most specific name in Envoy and nginx. These agree once every name is left out
/// that an earlier one covers: of two names that then match the same connection the more specific stands first.
pub(crate) fn reachable<'a, R>(
    hop: &HopName,
    routes: impl IntoIterator<Item = &'a R>,
    names: impl Fn(&'a R) -> &'a [String],
) -> Result<Vec<(&'a R, Vec<&'a str>)>, Unsupported> {
    let mut seen: Vec<&str> = Vec::new();
    let mut reachable = Vec::new();
    for route in routes {
        let mut own = Vec::new();
        for name in names(route) {
            check(hop, name)?;
            if !seen.iter().any(|earlier| covers(earlier, name)) {
                seen.push(name);
                own.push(name.as_str());
            }
        }
        if !own.is_empty() {
            reachable.push((route, own));
        }
    }
    Ok(reachable)
}

/// Refuses what is neither a host name in lower case nor a wildcard of whole labels. What passes can stand in
/// any configuration language without quotes.
fn check(hop: &HopName, name: &str) -> Result<(), Unsupported> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    let labels = name.strip_prefix("*.").unwrap_or(name).split('.');
    if labels.into_iter().all(|label| !label.is_empty() && label.bytes().all(allowed)) {
        Ok(())
    } else {
        Err(Unsupported::HostName { hop: hop.clone(), name: name.to_owned() })
    }
}

/// Whether every server name that `later` matches is matched by `earlier` too.
fn covers(earlier: &str, later: &str) -> bool {
    earlier == later || earlier.strip_prefix('*').is_some_and(|suffix| later.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, name: &str) -> bool {
        pattern == name || pattern.strip_prefix('*').is_some_and(|suffix| name.ends_with(suffix))
    }

    /// The route that Envoy picks: the exact name, else the longest wildcard.
    fn most_specific(routes: &[(&Vec<String>, Vec<&str>)], name: &str) -> Option<Vec<String>> {
        let patterns = routes.iter().flat_map(|(route, names)| names.iter().map(move |pattern| (*route, *pattern)));
        patterns
            .filter(|(_, pattern)| matches(pattern, name))
            .max_by_key(|(_, pattern)| (!pattern.starts_with('*'), pattern.len()))
            .map(|(route, _)| route.clone())
    }

    proptest! {
        #[test]
        fn the_most_specific_reachable_name_is_the_first_match(
            routes in prop::collection::vec(prop::collection::vec("(\\*\\.)?([ab]\\.){0,2}c", 1..4), 1..5),
            name in "([ab]\\.){0,3}c",
        ) {
            let first = routes.iter().find(|names| names.iter().any(|pattern| matches(pattern, &name))).cloned();
            let kept = reachable(&HopName::new("a/b"), &routes, |names| names).unwrap();
            prop_assert_eq!(most_specific(&kept, &name), first);
        }
    }

    #[test]
    fn what_is_no_host_name_is_refused() {
        let hop = HopName::new("a/b");
        for name in ["mongodb.example", "*.mongodb.example", "a-b_c.0", "localhost", "10.0.0.1"] {
            assert_eq!(check(&hop, name), Ok(()), "{name}");
        }
        for name in ["", "*", "*.", "a..b", "a.*.b", "*a.b", "A.b", "a.b;", "a b", "a.b.", "é.b", "*.*.b"] {
            assert!(matches!(check(&hop, name), Err(Unsupported::HostName { .. })), "{name}");
        }
    }
}
