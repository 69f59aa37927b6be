//! What the first bytes of a connection say about the host that it is meant for.
//!
//! Pure parsers: bytes in, a value, `Incomplete`, or an error out. They see the stream from its first byte, however it came
//! in segments, and take nothing from it: what was read is passed on as it is.

pub mod client_hello;
pub mod http_host;

/// Whether a name is one of `names`, which may start with `*.` for one or more labels, or be `*`.
pub(crate) fn matches(names: &[String], name: &str) -> bool {
    names.iter().any(|own| match own.strip_prefix('*') {
        None => own.eq_ignore_ascii_case(name),
        Some(suffix) => {
            let (head, tail) = name.split_at_checked(name.len().saturating_sub(suffix.len())).unwrap_or((name, ""));
            !head.is_empty() && tail.eq_ignore_ascii_case(suffix)
        }
    })
}

/// Whether `name` can be looked up as a host: labels of 1 to 63 letters, digits, `-` and `_`, at most 253 characters, no
/// trailing dot. A last label of digits is refused, since the name is or resembles an IPv4 address: no top-level domain
/// is a number, and parsers differ in what they take for an address (`127.1`).
pub(crate) fn is_host_name(name: &[u8]) -> bool {
    let is_label = |label: &[u8]| {
        (1..=63).contains(&label.len())
            && label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let is_number = |label: &[u8]| {
        let hexadecimal = label.strip_prefix(b"0x").or_else(|| label.strip_prefix(b"0X"));
        label.iter().all(u8::is_ascii_digit) || hexadecimal.is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    };
    let mut labels = name.split(|byte| *byte == b'.');
    name.len() <= 253 && labels.clone().all(is_label) && !labels.next_back().is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_whole_labels_in_front() {
        let names = ["a.example".to_owned(), "*.b.example".to_owned()];
        for name in ["a.example", "A.Example", "x.b.example", "x.y.B.example"] {
            assert!(matches(&names, name), "{name}");
        }
        for name in ["b.example", ".b.example", "xb.example", "x.a.example", "", "example"] {
            assert!(!matches(&names, name), "{name}");
        }
        assert!(matches(&["*".to_owned()], "anything") && !matches(&["*".to_owned()], ""));
    }

    #[test]
    fn host_names_are_told_from_what_is_none() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        for name in
            ["a", "a.b", "MixedCase.Example", "_dns.example-1.com", "1.2.3.4a", "xn--bcher-kva.example", &longest]
        {
            assert!(is_host_name(name.as_bytes()), "{name}");
        }
        let long_label = format!("{label}a.b");
        let too_long = format!("{longest}a");
        for name in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "a b",
            "a\0b",
            "a/b",
            "a:1",
            "*.a",
            "ü.example",
            "1.2.3.4",
            "127.1",
            "a.0x7f",
            "::1",
            "[::1]",
            "a@b",
            &long_label,
            &too_long,
        ] {
            assert!(!is_host_name(name.as_bytes()), "{name}");
        }
    }
}
