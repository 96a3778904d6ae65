//! Reset times in all the forms agents have been seen to use.

use proptest::prelude::*;

use super::*;

fn instant(text: &str) -> Timestamp {
    Timestamp(text.parse::<Moment>().expect("a test names a valid moment").as_millisecond())
}

/// New York's rules, spelled out so that no time zone database is needed.
fn new_york() -> TimeZone {
    TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").expect("a valid rule")
}

#[track_caller]
fn check_in(zone: &TimeZone, now: &str, text: &str, expect: Option<&str>) {
    assert_eq!(
        parse_reset_time(text, instant(now), zone),
        expect.map(instant),
        "{text:?} at {now}"
    );
}

#[track_caller]
fn check(now: &str, text: &str, expect: Option<&str>) {
    check_in(&TimeZone::UTC, now, text, expect);
}

const NOW: &str = "2026-11-15T00:48:22Z";

#[test]
fn every_known_form_is_read() {
    for (text, expect) in [
        ("You've hit your 5-hour limit · resets 2:48am (UTC)", "2026-11-15T02:48:00Z"),
        ("You've hit your weekly limit · resets Nov 18, 1:01am (UTC)", "2026-11-18T01:01:00Z"),
        ("You've hit your Opus limit · resets 9pm", "2026-11-15T21:00:00Z"),
        ("Claude AI usage limit reached|1794710902", "2026-11-15T02:48:22Z"),
        ("Claude AI usage limit reached|1794710902000", "2026-11-15T02:48:22Z"),
        ("Claude usage limit reached. Your limit will reset at 3pm (UTC).", "2026-11-15T15:00:00Z"),
        ("5-hour limit reached \u{2219} resets 9pm", "2026-11-15T21:00:00Z"),
        ("You've hit your session limit · resets 12:50am (UTC)", "2026-11-15T00:50:00Z"),
        ("Opus weekly limit reached \u{2219} resets Oct 31, 9am", "2026-10-31T09:00:00Z"),
        ("You're out of extra usage · resets May 2, 2pm (UTC)", "2027-05-02T14:00:00Z"),
        (
            "You\u{2019}ve hit your usage limit. Upgrade to Pro, or try again at 5:20 AM.",
            "2026-11-15T05:20:00Z",
        ),
        ("… try again at Nov 18th, 2026 4:40 PM.", "2026-11-18T16:40:00Z"),
        ("Rate limit reached for x. Please try again in 1.5s.", "2026-11-15T00:48:23.5Z"),
        ("try again in 20 seconds", "2026-11-15T00:48:42Z"),
        ("try again in 1h 30m", "2026-11-15T02:18:22Z"),
        ("try again in 2 hours and 5 minutes.", "2026-11-15T02:53:22Z"),
        ("quota resets at 2026-11-16T10:00:00Z", "2026-11-16T10:00:00Z"),
        ("resets at 17:20", "2026-11-15T17:20:00Z"),
        ("resets Nov 16 at 1am", "2026-11-16T01:00:00Z"),
    ] {
        check(NOW, text, Some(expect));
    }
}

#[test]
fn text_without_a_time_is_rejected() {
    for text in [
        "",
        "Try again later.",
        "resets soon",
        "resets 25:00",
        "resets 13pm",
        "resets 0am",
        "resets 5",
        "resets Feb 30, 9am",
        "resets Nov 18",
        "limit|12345",
        "try again in a moment",
        "try again in 5 lightyears",
        "try again in 99999999999999999999999999d",
        "reset at 9999999999999999999pm",
    ] {
        check(NOW, text, None);
    }
}

#[test]
fn a_time_of_day_that_is_past_means_tomorrow() {
    let evening = "2026-11-15T21:30:20Z";
    check(evening, "resets 9pm", Some("2026-11-16T21:00:00Z"));
    check(evening, "resets 10pm", Some("2026-11-15T22:00:00Z"));
    check(evening, "resets 12am", Some("2026-11-16T00:00:00Z"));
    check(evening, "resets 12pm", Some("2026-11-16T12:00:00Z"));
    check(evening, "resets 12:05am", Some("2026-11-16T00:05:00Z"));
    // A reset in the current minute is now, not tomorrow.
    check(evening, "resets 9:30pm", Some("2026-11-15T21:30:00Z"));
    check(evening, "resets 9:29pm", Some("2026-11-16T21:29:00Z"));
    check("2026-12-31T23:00:00Z", "resets 1am", Some("2027-01-01T01:00:00Z"));
}

#[test]
fn a_date_without_a_year_is_the_nearest_one() {
    check("2026-12-31T23:00:00Z", "resets Jan 2, 9am", Some("2027-01-02T09:00:00Z"));
    check("2027-01-01T00:10:00Z", "resets Dec 31, 11pm", Some("2026-12-31T23:00:00Z"));
    check("2028-02-27T00:00:00Z", "resets Feb 29, 9am", Some("2028-02-29T09:00:00Z"));
    check("2026-11-18T01:01:30Z", "resets Nov 18, 1:01am", Some("2026-11-18T01:01:00Z"));
}

#[test]
fn the_zone_in_brackets_wins() {
    let now = "2026-07-01T12:00:00Z";
    check_in(&new_york(), now, "resets 3pm", Some("2026-07-01T19:00:00Z"));
    check_in(&new_york(), now, "resets 3pm (UTC)", Some("2026-07-01T15:00:00Z"));
    check_in(&new_york(), now, "resets 3pm (Nowhere/Else)", Some("2026-07-01T19:00:00Z"));
    if TimeZone::get("America/Bogota").is_ok() {
        check(now, "reset at 3pm (America/Bogota).", Some("2026-07-01T20:00:00Z"));
    }
}

#[test]
fn clock_changes_follow_local_time() {
    // 2:30 does not exist on this night; the clock jumps over it.
    check_in(&new_york(), "2026-03-08T06:00:00Z", "resets 2:30am", Some("2026-03-08T07:30:00Z"));
    // 1:30 comes twice; once the first is over, the second is meant.
    check_in(&new_york(), "2026-11-01T05:00:00Z", "resets 1:30am", Some("2026-11-01T05:30:00Z"));
    check_in(&new_york(), "2026-11-01T05:45:00Z", "resets 1:30am", Some("2026-11-01T06:30:00Z"));
    check_in(&new_york(), "2026-11-01T06:45:00Z", "resets 1:30am", Some("2026-11-02T06:30:00Z"));
    // The day after has another offset.
    check_in(&new_york(), "2026-10-31T22:00:00Z", "resets 9am", Some("2026-11-01T14:00:00Z"));
}

#[test]
fn limits_are_distinguished_from_other_errors() {
    for text in [
        "You've hit your 5-hour limit · resets 2:48am (UTC)",
        "You\u{2019}ve hit your usage limit.",
        "You've reached your monthly spending limit",
        "You're out of extra usage",
        "Your org is out of usage · ask",
        "exceeded retry limit, last status: 429 Too Many Requests",
    ] {
        assert!(is_rate_limit_text(text), "{text}");
    }
    for text in ["", "connection refused", "segmentation fault", "the limit of my language"] {
        assert!(!is_rate_limit_text(text), "{text}");
    }
}

proptest! {
    #[test]
    fn parser_never_panics(text in "(resets |try again (in|at) |\\||[a-z0-9:,.()|\u{2219} ]{0,12}){0,6}\\PC{0,12}", now in any::<i64>()) {
        let _ = parse_reset_time(&text, Timestamp(now), &new_york());
        let _ = is_rate_limit_text(&text);
    }
}
