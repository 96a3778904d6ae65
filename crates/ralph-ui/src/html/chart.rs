//! The charts of a page: a burn-down, a timeline, bars. Plain SVG without text, so that it scales
//! to any width; labels are part of the HTML.
//!
//! An SVG element without a closing tag would contain the next one, so all have one (`rect {}`). Not
//! here: scripts. The tooltips for hover and focus are part of the page.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use maud::{Markup, html};
use ralph_core::reporting::report::timeline::{IterationSpan, ResultTone, Timeline};
use ralph_model::ids::Role;
use ralph_model::text::choose_plural;

/// The height of the burn-down in SVG units; each span is one unit wide.
const HEIGHT: f64 = 100.0;

/// Draws the remaining work after each span, or returns `None` if it is not counted.
pub(super) fn draw_burn_down(timeline: &Timeline) -> Option<Markup> {
    let points: Vec<u32> = timeline.spans.iter().map(|span| span.left).collect::<Option<_>>()?;
    let first = timeline.at_first.or(points.first().copied())?;
    let last = *points.last()?;
    let most = points.iter().copied().max()?.max(first).max(1);
    let y = |left: u32| HEIGHT - f64::from(left) / f64::from(most) * HEIGHT;
    let mut path = format!("M0 {:.1}", y(first));
    for (place, left) in points.iter().enumerate() {
        // Work is done at the end of an iteration: a step, not a slope.
        let _ = write!(path, "H{}V{:.1}", place + 1, y(*left));
    }
    // Extends the line, so that a step at the very end is visible.
    let width = format!("{}.4", points.len());
    let _ = write!(path, "H{width}");
    let label = format!(
        "{first} left before iteration 1, {last} left after iteration {}",
        timeline.spans.last()?.last
    );
    Some(html! {
        figure.chart {
            div.plot {
                span.most { (most) }
                span.least { "0" }
                svg.burn viewBox={ "0 0 " (width) " 100" } preserveAspectRatio="none" role="img" aria-label=(label) {
                    path.grid d={ "M0 0H" (width) "M0 50H" (width) "M0 100H" (width) } {}
                    path.area d={ (path) "V100H0Z" } {}
                    path.line d=(path) {}
                }
            }
            figcaption { (label) }
        }
    })
}

/// Draws the iterations, a column for each span and a row for each role. Color and shape show the
/// result, and a tooltip describes it on hover and focus.
pub(super) fn draw_timeline(
    timeline: &Timeline,
    link: impl Fn(&IterationSpan) -> String,
) -> Option<Markup> {
    let last = timeline.spans.last()?;
    let roles: BTreeSet<Role> =
        timeline.spans.iter().flat_map(|span| span.results.keys().map(|(role, _)| *role)).collect();
    let roles: Vec<Role> = roles.into_iter().collect();
    let first = timeline.spans.first()?;
    Some(html! {
        @if timeline.stride > 1 {
            p.note { "Each column stands for " (timeline.stride) " iterations." }
        }
        figure.chart {
            div class={ "lanes rows-" (roles.len()) } {
                div.roles aria-hidden="true" { @for role in &roles { span { (role) } } }
                div.columns {
                    @for span in &timeline.spans { (draw_column(span, &roles, &link(span))) }
                }
            }
            figcaption {
                span { "iterations " (first.first) " to " (last.last) }
                span.legend {
                    i.good {} "passed " i.middling {} "changes requested " i.bad {} "failed"
                }
            }
        }
    })
}

/// Draws one column with its tooltip.
fn draw_column(span: &IterationSpan, roles: &[Role], link: &str) -> Markup {
    let mut tooltip = if span.first == span.last {
        format!("Iteration {}", span.first)
    } else {
        format!("Iterations {} to {}", span.first, span.last)
    };
    for ((role, came_to), count) in &span.results {
        let times = if *count == 1 { String::new() } else { format!(" ({count}×)") };
        let _ = write!(tooltip, "; {role} {}{times}", came_to.label());
    }
    let _ = write!(tooltip, "; {}", span.ran);
    if let Some(cost) = span.cost {
        let _ = write!(tooltip, "; {cost}");
    }
    if let Some(left) = span.left {
        let _ = write!(tooltip, "; {left} left");
    }
    html! {
        a href=(link) {
            svg viewBox={ "0 0 1 " (roles.len()) } preserveAspectRatio="none" aria-hidden="true" {
                @for (row, role) in roles.iter().enumerate() { (draw_results(row, *role, span)) }
            }
            span.tip { (tooltip) }
        }
    }
}

/// Draws the results of the iterations of one role. Failures are split in two, so that they can
/// be recognized without color.
fn draw_results(row: usize, role: Role, span: &IterationSpan) -> Markup {
    let count = |tone: ResultTone| -> u32 {
        let results = span.results.iter();
        let results = results.filter(|((of, result), _)| *of == role && result.tone() == tone);
        results.map(|(_, count)| count).sum()
    };
    let tones = [ResultTone::Good, ResultTone::Middling, ResultTone::Bad];
    let total: u32 = tones.into_iter().map(count).sum();
    let mut bottom = u32::try_from(row).map_or(0.0, f64::from) + 0.95;
    let mut cells: Vec<(&str, f64, f64)> = Vec::new();
    for tone in tones.into_iter().filter(|tone| count(*tone) > 0) {
        let high = f64::from(count(tone)) / f64::from(total.max(1)) * 0.9;
        let top = bottom - high;
        match tone {
            ResultTone::Good => cells.push(("good", top, high)),
            ResultTone::Middling => cells.push(("middling", top, high)),
            ResultTone::Bad => {
                cells.push(("bad", top, high * 0.42));
                cells.push(("bad", top + high * 0.58, high * 0.42));
            }
        }
        bottom = top;
    }
    html! {
        @for (class, y, high) in cells {
            rect class=(class) x=".06" y=(format!("{y:.2}")) width=".88" height=(format!("{high:.2}")) {}
        }
    }
}

/// Draws a share of a whole as a bar. The number is next to it as text.
pub(super) fn draw_bar(part: u64, whole: u64, tone: ResultTone) -> Markup {
    let share = if whole == 0 { 0 } else { u128::from(part) * 1000 / u128::from(whole) };
    let class = match tone {
        ResultTone::Good => "good",
        ResultTone::Middling => "middling",
        ResultTone::Bad => "bad",
    };
    html! {
        svg.bar viewBox="0 0 1000 1" preserveAspectRatio="none" aria-hidden="true" {
            rect.rest width="1000" height="1" {}
            rect class=(class) width=(share.min(1000)) height="1" {}
        }
    }
}

/// Draws the progress of a list: done, failed, and the rest.
pub(super) fn draw_progress(done: usize, failed: usize, total: usize) -> Markup {
    let share = |part: usize| part.saturating_mul(1000).checked_div(total).unwrap_or_default();
    let label = format!("{done} of {total} task{} done, {failed} failed", choose_plural(total));
    html! {
        @if total > 0 {
            svg.progress viewBox="0 0 1000 1" preserveAspectRatio="none" role="img" aria-label=(label) {
                rect.rest width="1000" height="1" {}
                rect.good width=(share(done)) height="1" {}
                rect.bad x=(share(done)) width=(share(failed)) height="1" {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use ralph_core::reporting::report::timeline::IterationResult;
    use ralph_model::ids::IterationNumber;
    use ralph_model::units::{Millis, Tokens, UsdMicros};

    use super::*;

    fn span(
        number: u32,
        came_to: &[(Role, IterationResult, u32)],
        left: Option<u32>,
    ) -> IterationSpan {
        IterationSpan {
            first: IterationNumber(number),
            last: IterationNumber(number),
            count: 1,
            results: came_to
                .iter()
                .map(|(role, came_to, count)| ((*role, *came_to), *count))
                .collect(),
            ran: Millis(61_000),
            cost: Some(UsdMicros(250_000)),
            tokens: Tokens(1),
            left,
        }
    }

    fn two() -> Timeline {
        let mut timeline = Timeline::default();
        timeline.spans = vec![
            span(1, &[(Role::Implement, IterationResult::GatesFailed, 1)], Some(2)),
            span(2, &[(Role::Review, IterationResult::Approved, 1)], Some(1)),
        ];
        (timeline.stride, timeline.at_first) = (1, Some(2));
        timeline
    }

    #[test]
    fn a_burn_down_goes_by_steps() {
        expect![[r#"<figure class="chart"><div class="plot"><span class="most">2</span><span class="least">0</span><svg class="burn" viewBox="0 0 2.4 100" preserveAspectRatio="none" role="img" aria-label="2 left before iteration 1, 1 left after iteration 2"><path class="grid" d="M0 0H2.4M0 50H2.4M0 100H2.4"></path><path class="area" d="M0 0.0H1V0.0H2V50.0H2.4V100H0Z"></path><path class="line" d="M0 0.0H1V0.0H2V50.0H2.4"></path></svg></div><figcaption>2 left before iteration 1, 1 left after iteration 2</figcaption></figure>"#]].assert_eq(&draw_burn_down(&two()).expect("drawn").into_string());
        let mut uncounted = two();
        uncounted.spans[0].left = None;
        assert!(draw_burn_down(&uncounted).is_none());
        assert!(draw_burn_down(&Timeline::default()).is_none());
    }

    #[test]
    fn a_timeline_shows_role_and_verdict_by_position_and_shape() {
        expect![[r##"<figure class="chart"><div class="lanes rows-2"><div class="roles" aria-hidden="true"><span>implement</span><span>review</span></div><div class="columns"><a href="#i1"><svg viewBox="0 0 1 2" preserveAspectRatio="none" aria-hidden="true"><rect class="bad" x=".06" y="0.05" width=".88" height="0.38"></rect><rect class="bad" x=".06" y="0.57" width=".88" height="0.38"></rect></svg><span class="tip">Iteration 1; implement gates failed; 1m 1s; $0.25; 2 left</span></a><a href="#i2"><svg viewBox="0 0 1 2" preserveAspectRatio="none" aria-hidden="true"><rect class="good" x=".06" y="1.05" width=".88" height="0.90"></rect></svg><span class="tip">Iteration 2; review approved; 1m 1s; $0.25; 1 left</span></a></div></div><figcaption><span>iterations 1 to 2</span><span class="legend"><i class="good"></i>passed <i class="middling"></i>changes requested <i class="bad"></i>failed</span></figcaption></figure>"##]]
            .assert_eq(&draw_timeline(&two(), |span| format!("#i{}", span.first)).expect("drawn").into_string());
        assert!(draw_timeline(&Timeline::default(), |_| String::new()).is_none());
    }

    #[test]
    fn joined_iterations_share_a_cell() {
        let came_to =
            [(Role::Fix, IterationResult::Passed, 3), (Role::Fix, IterationResult::NoAnswer, 1)];
        let joined =
            IterationSpan { last: IterationNumber(4), count: 4, ..span(1, &came_to, None) };
        expect![[r##"<a href="#x"><svg viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true"><rect class="good" x=".06" y="0.27" width=".88" height="0.68"></rect><rect class="bad" x=".06" y="0.05" width=".88" height="0.09"></rect><rect class="bad" x=".06" y="0.18" width=".88" height="0.09"></rect></svg><span class="tip">Iterations 1 to 4; fix passed (3×); fix no answer; 1m 1s; $0.25</span></a>"##]].assert_eq(&draw_column(&joined, &[Role::Fix], "#x").into_string());
    }

    #[test]
    fn bars_never_leave_their_frame() {
        for (part, whole, expect) in [(0, 0, 0), (1, 2, 500), (5, 2, 1000), (u64::MAX, 1, 1000)] {
            let drawn = draw_bar(part, whole, ResultTone::Good).into_string();
            assert!(drawn.contains(&format!("class=\"good\" width=\"{expect}\"")), "{drawn}");
        }
        assert_eq!(draw_progress(0, 0, 0).into_string(), "");
        assert!(draw_progress(1, 1, 4).into_string().contains("x=\"250\" width=\"250\""));
    }
}
