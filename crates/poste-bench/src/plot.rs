//! A plot of cost against history: one panel per kind of history, one line per operation.

use std::fmt::Write as _;

use crate::office::History;
use crate::report::{Point, quantity};

const PANEL_WIDTH: f64 = 300.0;
const PANEL_HEIGHT: f64 = 260.0;
const LEFT: f64 = 62.0;
const TOP: f64 = 70.0;
const GAP: f64 = 34.0;
/// Distinct in colour and, for readers who cannot see the difference, in dash; the legend shows both.
const STYLES: [(&str, &str); 6] = [
    ("#0072b2", ""),
    ("#d55e00", "6 3"),
    ("#009e73", "2 3"),
    ("#cc79a7", "10 3 2 3"),
    ("#56b4e9", "1 2"),
    ("#444444", "8 2"),
];

/// Both axes are logarithmic: a flat line is a cost that does not grow.
pub(crate) fn growth(points: &[Point]) -> String {
    let operations = in_order(points.iter().map(|point| point.operation));
    let histories = in_order(points.iter().map(|point| point.history));
    let scale = Scale::of(points);
    let width = LEFT + histories.len() as f64 * (PANEL_WIDTH + GAP);
    let height = TOP + PANEL_HEIGHT + 60.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    text(&mut svg, LEFT, 20.0, "start", "Median time of one operation, against the messages in the office");
    legend(&mut svg, &operations);
    for (nth, history) in histories.iter().enumerate() {
        let left = LEFT + nth as f64 * (PANEL_WIDTH + GAP);
        panel(&mut svg, &scale, left, nth == 0, title(history));
        for (operation, (colour, dash)) in operations.iter().zip(STYLES.iter().cycle()) {
            let of = points.iter().filter(|point| point.history == *history && point.operation == *operation);
            let at: Vec<String> =
                of.map(|point| format!("{:.1},{:.1}", left + scale.x(point), scale.y(point.median_us))).collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
                 stroke-dasharray=\"{dash}\"/>",
                at.join(" ")
            );
            for place in at {
                let (x, y) = place.split_once(',').unwrap_or_default();
                let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{colour}\"/>");
            }
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn title(history: &str) -> &str {
    History::ALL.iter().find(|known| known.name() == history).map_or(history, |known| known.title())
}

fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

struct Scale {
    messages: (f64, f64),
    us: (f64, f64),
}

impl Scale {
    fn of(points: &[Point]) -> Self {
        let fold = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)))
        };
        let messages = fold(&mut points.iter().map(|point| (point.messages as f64).log10()));
        let us = fold(&mut points.iter().map(|point| point.median_us.max(0.1).log10()));
        Self { messages, us: (us.0.floor(), us.1.ceil().max(us.0.floor() + 1.0)) }
    }

    /// Within a panel.
    fn x(&self, point: &Point) -> f64 {
        let (low, high) = self.messages;
        let share = ((point.messages as f64).log10() - low) / (high - low).max(f64::EPSILON);
        12.0 + share * (PANEL_WIDTH - 24.0)
    }

    fn y(&self, us: f64) -> f64 {
        let (low, high) = self.us;
        TOP + PANEL_HEIGHT * (1.0 - (us.max(0.1).log10() - low) / (high - low))
    }
}

fn panel(svg: &mut String, scale: &Scale, left: f64, is_first: bool, title: &str) {
    let _ = writeln!(
        svg,
        "<rect x=\"{left}\" y=\"{TOP}\" width=\"{PANEL_WIDTH}\" height=\"{PANEL_HEIGHT}\" fill=\"none\" \
         stroke=\"#bbb\"/>"
    );
    text(svg, left + PANEL_WIDTH / 2.0, TOP + PANEL_HEIGHT + 42.0, "middle", &format!("messages {title}"));
    for power in scale.us.0 as i32..=scale.us.1 as i32 {
        let us = 10_f64.powi(power);
        let y = scale.y(us);
        let right = left + PANEL_WIDTH;
        let _ = writeln!(svg, "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#e6e6e6\"/>");
        if is_first {
            text(svg, left - 6.0, y + 4.0, "end", &quantity(us, "µs").replace(".00 ms", " ms").replace(".0 ms", " ms"));
        }
    }
    for power in scale.messages.0.ceil() as i32..=scale.messages.1.floor() as i32 {
        let point = Point { history: "", operation: "", messages: 10_u64.pow(power.max(0) as u32), median_us: 1.0 };
        text(svg, left + scale.x(&point), TOP + PANEL_HEIGHT + 18.0, "middle", &short(point.messages));
    }
}

fn short(messages: u64) -> String {
    match messages {
        1_000_000.. => format!("{}M", messages / 1_000_000),
        1_000.. => format!("{}k", messages / 1_000),
        _ => messages.to_string(),
    }
}

fn legend(svg: &mut String, operations: &[&str]) {
    for (nth, (operation, (colour, dash))) in operations.iter().zip(STYLES.iter().cycle()).enumerate() {
        let x = LEFT + nth as f64 * 150.0;
        let end = x + 34.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{x}\" y1=\"42\" x2=\"{end}\" y2=\"42\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-dasharray=\"{dash}\"/>"
        );
        text(svg, end + 6.0, 46.0, "start", operation);
    }
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}
