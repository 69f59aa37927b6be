//! Spans of time as people write them: `500us`, `200ms`, `5m`.

use crate::{
    diagnostics::Diagnostics,
    yaml::{Decode, Node},
};
use std::time::Duration;

/// Longest span that is accepted: a day, beyond which a unit was mistaken.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads a whole number with its unit (`us`, `ms`, `s`, `m`, `h`). A number without one is refused: a bare `5` is
/// seconds to some and milliseconds to others.
pub fn parse(text: &str) -> Result<Duration, String> {
    const EXPECTED: &str = "a duration is a whole number with a unit: us, ms, s, m or h, like 200ms";
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let micros: u64 = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "" => return Err(format!("`{text}` has no unit; {EXPECTED}")),
        _ => return Err(format!("`{text}` is not a duration; {EXPECTED}")),
    };
    let number: u64 = number.parse().map_err(|_| format!("`{text}` is not a duration; {EXPECTED}"))?;
    let duration = number.checked_mul(micros).map(Duration::from_micros);
    duration.filter(|d| *d <= LONGEST).ok_or_else(|| format!("`{text}` is longer than 24h, the most that is accepted"))
}

impl Decode for Duration {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        if let crate::yaml::Value::Integer(number) = node.value {
            problems
                .error(&node.place, format!("`{number}` has no unit: write one of us, ms, s, m, h, like {number}ms"));
            return None;
        }
        let text = String::decode(node, problems)?;
        parse(&text).map_err(|message| problems.error(&node.place, message)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units() {
        assert_eq!(parse("0us"), Ok(Duration::ZERO));
        assert_eq!(parse("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(parse("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse("5m"), Ok(Duration::from_secs(300)));
        for text in
            ["", "5", "ms", "1.5s", "-1s", "1 s", "1min", "25h", "99999999999999999999s", "18446744073709551615h"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_duration_or_an_error(text in any::<String>()) {
            let _ = parse(&text);
        }
    }
}
