//! Numbers as people read them: three digits that matter, a real minus sign, groups of three.

/// Narrow space that does not break: between a number and its unit, and between groups of three digits.
pub(crate) const THIN: char = '\u{202f}';

/// Three significant digits (more only before the decimal point): `1 234`, `24.1`, `0.873`.
pub(crate) fn number(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = if magnitude >= 99.95 || magnitude == 0.0 {
        0
    } else if magnitude >= 9.995 {
        1
    } else {
        2
    };
    rounded(value, decimals)
}

/// A value and its uncertainty, both with as many decimals as the uncertainty deserves: `104.2 ± 3.1`.
pub(crate) fn with_uncertainty(value: f64, uncertainty: f64) -> String {
    let decimals = if uncertainty >= 9.95 {
        0
    } else if uncertainty >= 0.995 {
        1
    } else {
        2
    };
    format!("{} ± {}", rounded(value, decimals), rounded(uncertainty, decimals))
}

/// A whole number in groups of three digits.
pub(crate) fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// As [`number`], always with its sign; `±0` for what rounds to nothing.
pub(crate) fn signed(value: f64) -> String {
    let text = number(value.abs());
    match text.chars().any(|digit| matches!(digit, '1'..='9')) {
        false => "±0".to_owned(),
        true if value < 0.0 => format!("−{text}"),
        true => format!("+{text}"),
    }
}

/// A share as a percentage with one decimal: `0.0312` is `3.1 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{}{THIN}%", grouped(&format!("{:.1}", share * 100.0)))
}

/// A ratio as its difference from 1, in percent with sign: `0.9` is `−10.0 %`.
pub(crate) fn change(ratio: f64) -> String {
    let tenths = ((ratio - 1.0) * 1000.0).round();
    let sign = if tenths < 0.0 {
        "−"
    } else if tenths > 0.0 {
        "+"
    } else {
        "±"
    };
    format!("{sign}{:.1}{THIN}%", tenths.abs() / 10.0)
}

/// Bytes in the unit that leaves at most three digits before the point.
pub(crate) fn bytes(bytes: f64) -> String {
    let units = ["B", "KB", "MB", "GB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{}{THIN}{}", number(value), units[unit])
}

/// With this many decimals, and no sign on a zero.
fn rounded(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let unsigned = text.strip_prefix('-').filter(|digits| digits.chars().all(|digit| matches!(digit, '0' | '.')));
    grouped(unsigned.unwrap_or(&text))
}

fn grouped(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("−", digits));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut grouped = String::from(sign);
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(THIN);
        }
        grouped.push(digit);
    }
    grouped.push_str(fraction);
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_matter() {
        let texts = [1234.4, 99.96, 24.06, 9.996, 0.8734, 0.0, -1234567.0].map(number);
        assert_eq!(texts, ["1\u{202f}234", "100", "24.1", "10.0", "0.87", "0", "−1\u{202f}234\u{202f}567"]);
    }

    #[test]
    fn signs_are_said_only_of_what_is_left_after_rounding() {
        assert_eq!([0.001, -0.001, 4.25, -310.0].map(signed), ["±0", "±0", "+4.25", "−310"]);
        assert_eq!(
            [0.9, 1.0002, 1.0, 1.246].map(change).map(|text| text.replace(THIN, " ")),
            ["−10.0 %", "±0.0 %", "±0.0 %", "+24.6 %"]
        );
    }

    #[test]
    fn uncertainty_says_how_many_decimals_make_sense() {
        assert_eq!(with_uncertainty(104.21, 3.08), "104.2 ± 3.1");
        assert_eq!(with_uncertainty(2047.3, 27.7), "2\u{202f}047 ± 28");
        assert_eq!(with_uncertainty(-0.001, 0.352), "0.00 ± 0.35");
    }

    #[test]
    fn bytes_take_the_unit_that_fits() {
        assert_eq!(
            [620.0, 64_300_000.0, 8.2e9].map(bytes).map(|text| text.replace(THIN, " ")),
            ["620 B", "64.3 MB", "8.20 GB"]
        );
    }
}
