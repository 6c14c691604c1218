//! `Date`, by RFC 9110 §5.6.7.

/// The text of a second since 1970, until the year 9999.
pub fn http_date(unix_s: u64) -> [u8; 29] {
    const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
    const MONTHS: [&[u8; 3]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    let unix_s = unix_s.min(253_402_300_799);
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = civil(days);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    text[..3].copy_from_slice(DAYS[(days % 7) as usize]);
    two(&mut text[5..7], day);
    text[8..11].copy_from_slice(MONTHS[month as usize - 1]);
    two(&mut text[12..14], year / 100);
    two(&mut text[14..16], year % 100);
    two(&mut text[17..19], second / 3600);
    two(&mut text[20..22], second / 60 % 60);
    two(&mut text[23..25], second % 60);
    text
}

fn two(place: &mut [u8], number: u64) {
    place[0] = b'0' + (number / 10) as u8;
    place[1] = b'0' + (number % 10) as u8;
}

/// Year, month and day of a day since 1970, counted in years that begin in March: so the leap day
/// is the last one, and months have lengths that one formula gives.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // from 0000-03-01
    let era = days / 146_097; // 400 years
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_seconds_have_their_known_dates() {
        for (unix_s, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(std::str::from_utf8(&http_date(unix_s)).unwrap(), text);
        }
    }
}
