//! The charts of a run, as plotly figures. They know nothing of the page that they stand on: colours are those of a
//! light page, and [`DARK`] tells the counterpart of each for a dark one, so that a page can swap them in the JSON.
//!
//! Every name that came from outside is escaped, because plotly reads a subset of HTML in all its texts.

use plotly::common::{Anchor, DashType, Fill, Font, Line, LineShape, Marker, Mode, Orientation, Title};
use plotly::configuration::DisplayModeBar;
use plotly::layout::{
    Axis, AxisType, HoverMode, Legend, Margin, RangeMode, Shape, ShapeLayer, ShapeLine, ShapeType,
};
use plotly::{Bar, Configuration, Layout, Plot, Scatter};

use crate::measure::{Delay, Delays, Point, Recorder};

use super::axes::{self, TimeUnit};
use super::format;

/// The most points that a line has in a chart over the whole width: more than that is noise on a screen.
const POINTS_MAX_WIDE: usize = 300;
/// The most points that a line has in a chart over half the width.
const POINTS_MAX: usize = 120;
/// Points of the chart that sets completed against offered; fewer, so that each is of enough calls.
const POINTS_MAX_SCATTER: usize = 90;
/// More proxies than this are drawn as their least, mean and most.
const PROXIES_DRAWN_MAX: usize = 8;
/// More causes of failure than this are drawn as one.
const CAUSES_DRAWN_MAX: usize = 6;

pub(super) const INK: &str = "#3d4753";
pub(super) const GRID: &str = "#e4e7eb";
const PAPER: &str = "#fefefe";
const SHADE: &str = "#eef1f4";
const OFFERED: &str = "#8c95a1";
const BLUE: &str = "#0072b2";
const SKY: &str = "#56b4e9";
const VERMILION: &str = "#d55e00";
const OTHERS: &str = "#b9c0c9";

/// Colours that are told apart with any colour vision (Okabe and Ito), without the yellow that paper swallows.
const SERIES: [&str; 8] = [BLUE, "#e69f00", "#009e73", SKY, VERMILION, "#cc79a7", "#6a4c93", "#7f6a00"];

/// The counterpart on a dark page of every colour in the figures.
pub const DARK: [(&str, &str); 14] = [
    (INK, "#b4bdc8"),
    (GRID, "#2b323b"),
    (PAPER, "#181d23"),
    (SHADE, "#1d232a"),
    (OFFERED, "#7d8896"),
    (BLUE, "#4ea7e0"),
    (SKY, "#9ad4f8"),
    (VERMILION, "#f5823f"),
    (OTHERS, "#525c68"),
    ("#e69f00", "#f0b73a"),
    ("#009e73", "#35c297"),
    ("#cc79a7", "#e09cc1"),
    ("#6a4c93", "#a58bd0"),
    ("#7f6a00", "#c9ad3a"),
];

/// One chart.
pub struct Chart {
    /// A name for the page, stable over runs.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// How to read it.
    pub note: String,
    /// Whether it wants the whole width of a wide page.
    pub wide: bool,
    /// The figure.
    pub plot: Plot,
}

impl Chart {
    /// The figure as JSON (`data`, `layout`, `config`), safe inside a `script` element.
    pub fn json(&self) -> String {
        script_safe(&self.plot.to_json())
    }
}

/// JSON that cannot end the `script` element it stands in.
pub(super) fn script_safe(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// All charts that the run has figures for, the most telling first.
pub fn all(recorder: &Recorder) -> Vec<Chart> {
    let (many, few) = (recorder.series(POINTS_MAX_WIDE), recorder.series(POINTS_MAX));
    let end_s = many.last().map_or(0.0, |p| p.start_s + p.width_s);
    let unit = TimeUnit::for_span(end_s);
    let wide = View { recorder, points: &many, unit };
    let view = View { recorder, points: &few, unit };
    let charts = [
        wide.rates(),
        view.offered_against_completed(),
        view.delays_over_time("srd", "Session request delay", Delay::Srd),
        view.distribution(),
        view.failures(),
        view.proxy_requests(),
        view.proxy_cpu(),
        view.delays_over_time("rrd", "Registration request delay", Delay::Rrd),
        view.lag(),
    ];
    charts.into_iter().flatten().collect()
}

/// A run as the charts see it.
struct View<'a> {
    recorder: &'a Recorder,
    points: &'a [Point],
    unit: TimeUnit,
}

impl View<'_> {
    /// Offered, completed and failed calls per second.
    fn rates(&self) -> Option<Chart> {
        if !self.points.iter().any(|p| p.calls.offered > 0 || p.completed_by_end > 0) {
            return None;
        }
        let x = self.middles();
        let offered = self.points.iter().map(|p| p.planned_per_s(p.calls.offered)).collect();
        let completed = self.points.iter().map(|p| Some(p.per_s(p.completed_by_end))).collect();
        let failed: Vec<_> = self.points.iter().map(|p| p.planned_per_s(p.calls.failed())).collect();
        let mut plot = Plot::new();
        plot.add_trace(
            self.line("completed", &x, completed, BLUE).fill(Fill::ToZeroY).fill_color(faint(BLUE)),
        );
        plot.add_trace(
            self.line("offered", &x, offered, OFFERED)
                .line(Line::new().color(OFFERED).width(1.6).dash(DashType::Dot)),
        );
        if failed.iter().any(|f| f.is_some_and(|f| f > 0.0)) {
            plot.add_trace(self.line("failed", &x, failed, VERMILION));
        }
        let layout = self.layout(value_axis("calls/s"));
        Some(chart("rates", "Arrivals and completions", self.reading("calls"), true, plot, layout))
    }

    /// Each stretch of the load as a point: how much was offered, and how much of it completed.
    fn offered_against_completed(&self) -> Option<Chart> {
        let warmup_s = self.recorder.config().warmup.as_secs_f64();
        let points = self.recorder.series(POINTS_MAX_SCATTER);
        let (mut x, mut y, mut most) = (Vec::new(), Vec::new(), 0.0_f64);
        for p in points.iter().filter(|p| p.start_s >= warmup_s && p.load_s >= p.width_s) {
            let rates = (p.planned_per_s(p.calls.offered), p.planned_per_s(p.calls.completed()));
            let (Some(offered), Some(completed)) = rates else { continue };
            x.push(offered);
            y.push(completed);
            most = most.max(offered);
        }
        if most == 0.0 {
            return None;
        }
        let mut plot = Plot::new();
        let all = Scatter::new(vec![0.0, most * 1.05], vec![0.0, most * 1.05])
            .name("all of it")
            .mode(Mode::Lines)
            .hover_info(plotly::common::HoverInfo::Skip)
            .line(Line::new().color(OFFERED).width(1.2).dash(DashType::Dot));
        let width = points.first().map_or(0.0, |p| p.width_s);
        let dots = Scatter::new(x, y)
            .name(format!("{} of the run", format::length(width)))
            .mode(Mode::Markers)
            .marker(Marker::new().color(BLUE).size(7).opacity(0.65))
            .hover_template("%{x:.1f} offered/s<br>%{y:.1f} completed/s<extra></extra>");
        plot.add_traces(vec![all, dots]);
        let x_axis = value_axis("offered, calls/s");
        let layout = base_layout(x_axis, value_axis("completed, calls/s")).hover_mode(HoverMode::Closest);
        let note = "Of the calls planned in each stretch, how many completed. On the dotted line, all did.";
        Some(chart("load", "Offered against completed", note.to_owned(), false, plot, layout))
    }

    /// p50, p99 and p99.9 of a delay over time.
    fn delays_over_time(&self, id: &'static str, title: &'static str, kind: Delay) -> Option<Chart> {
        type Pick = fn(&crate::measure::Quantiles) -> f64;
        let picks: [(&str, &str, f64, Pick); 3] = [
            ("p50", SKY, 2.0, |q| q.p50_s),
            ("p99", BLUE, 2.0, |q| q.p99_s),
            ("p99.9", VERMILION, 1.1, |q| q.p999_s),
        ];
        let values = |pick: Pick| self.points.iter().map(move |p| p.delays(kind).map(pick));
        let (least, most) = axes::span(picks.iter().flat_map(|(_, _, _, pick)| values(*pick)).flatten())?;
        let x = self.middles();
        let mut plot = Plot::new();
        // Where both are the same, the thin line of the higher percentile lies on the broad one of the lower.
        for (name, colour, width, pick) in picks {
            let line = Line::new().color(colour).width(width);
            plot.add_trace(self.delay_line(name, &x, values(pick).collect(), colour).line(line));
        }
        let layout = self.layout(axes::delay_axis(least, most));
        Some(chart(id, title, self.reading(delay_meaning(kind)), false, plot, layout))
    }

    /// How delays are distributed: the delay that a share of all does not exceed.
    fn distribution(&self) -> Option<Chart> {
        let kinds = [
            ("session request (SRD)", Delay::Srd, BLUE),
            ("failed requests", Delay::SrdFailed, VERMILION),
            ("registration (RRD)", Delay::Rrd, "#e69f00"),
            ("disconnect (SDD)", Delay::Sdd, "#009e73"),
        ];
        let curves: Vec<_> = kinds
            .iter()
            .filter(|(_, kind, _)| !self.recorder.delays(*kind).is_empty())
            .map(|(name, kind, colour)| (*name, curve(self.recorder.delays(*kind)), *colour))
            .collect();
        let (least, most) = axes::span(curves.iter().flat_map(|(_, c, _)| c.iter().map(|(_, s)| *s)))?;
        let nines_max =
            curves.iter().flat_map(|(_, c, _)| c.iter().map(|(nines, _)| *nines)).fold(1.0, f64::max);
        let mut plot = Plot::new();
        for (name, points, colour) in curves {
            let text: Vec<String> = points
                .iter()
                .map(|(nines, s)| format!("{} within {}", axes::share_label(*nines), format::delay(*s)))
                .collect();
            let (x, y): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
            plot.add_trace(
                Scatter::new(x, y)
                    .name(name)
                    .mode(Mode::Lines)
                    .text_array(text)
                    .hover_template("%{text}")
                    .line(Line::new().color(colour).width(2.0).shape(LineShape::Linear)),
            );
        }
        let layout = base_layout(axes::nines_axis(nines_max), axes::delay_axis(least, most))
            .hover_mode(HoverMode::Closest);
        let note = "How long the given share of all took at most, after the warm-up.".to_owned();
        Some(chart("distribution", "Distribution of delays", note, false, plot, layout))
    }

    /// Failed calls by cause, as counts: a rate of something rare tells nobody anything.
    fn failures(&self) -> Option<Chart> {
        const COLOURS: [&str; CAUSES_DRAWN_MAX] = [VERMILION, "#e69f00", BLUE, "#cc79a7", "#009e73", SKY];
        let causes = self.causes();
        if causes.is_empty() {
            return None;
        }
        let x = self.middles();
        let width = self.points.first().map_or(0.0, |p| self.unit.of(p.width_s));
        let named: Vec<_> = causes.iter().take(CAUSES_DRAWN_MAX).map(|(cause, _)| *cause).collect();
        let mut plot = Plot::new();
        let bar = |name: &str, y: Vec<u64>, colour: &'static str| {
            Bar::new(x.clone(), y)
                .name(name)
                .width(width)
                .marker(Marker::new().color(colour).line(Line::new().width(0.0)))
        };
        for (cause, colour) in named.iter().zip(COLOURS) {
            let y = self.points.iter().map(|p| p.calls.with(*cause)).collect();
            plot.add_trace(bar(&crate::measure::cause_label(*cause), y, colour));
        }
        if causes.len() > named.len() {
            let rest = |p: &Point| p.calls.failed() - named.iter().map(|c| p.calls.with(*c)).sum::<u64>();
            let y = self.points.iter().map(rest).collect();
            plot.add_trace(bar(&format!("{} other causes", causes.len() - named.len()), y, OTHERS));
        }
        let layout = self.layout(value_axis("failed calls")).bar_mode(plotly::layout::BarMode::Stack);
        let note = self.reading("failed calls").replacen("point", "bar", 1);
        Some(chart("failures", "Failures by cause", note, false, plot, layout))
    }

    /// The causes of failure in the whole run, warm-up included, most frequent first.
    fn causes(&self) -> Vec<(busyhour_roles::ua::Outcome, u64)> {
        let mut sum = std::collections::BTreeMap::new();
        for (cause, n) in self.points.iter().flat_map(|p| p.calls.failures()) {
            *sum.entry(cause).or_insert(0) += n;
        }
        let mut causes: Vec<_> = sum.into_iter().collect();
        causes.sort_by_key(|&(cause, n)| (std::cmp::Reverse(n), cause));
        causes
    }

    /// Requests per second that each proxy took.
    fn proxy_requests(&self) -> Option<Chart> {
        let rate = |p: &Point, w: &crate::measure::ProxyWork| Some(p.per_s(w.requests));
        let names = self.proxy_names();
        if names.is_empty() || !self.points.iter().flat_map(|p| &p.proxies).any(|(_, w)| w.requests > 0) {
            return None;
        }
        let x = self.middles();
        let mut plot = Plot::new();
        let note = if names.len() <= PROXIES_DRAWN_MAX {
            for (name, colour) in names.iter().zip(SERIES) {
                let y = self.of_proxy(name, rate);
                let line = Line::new().color(colour).width(1.0);
                let trace = self.line(&plotly_text(name), &x, y, colour).line(line);
                plot.add_trace(trace.stack_group("proxies").fill_color(soft(colour)));
            }
            "How many requests each proxy took, one above the other."
        } else {
            self.add_spread(&mut plot, &x, rate);
            "How many requests the proxies took each."
        };
        let layout = self.layout(value_axis("requests/s"));
        Some(chart("proxies", "Requests per proxy", note.to_owned(), false, plot, layout))
    }

    /// The share of a core that each proxy used.
    fn proxy_cpu(&self) -> Option<Chart> {
        let share = |_: &Point, w: &crate::measure::ProxyWork| w.cpu_share().map(|c| c * 100.0);
        if !self.points.iter().flat_map(|p| &p.proxies).any(|(_, w)| w.cpu_share().is_some()) {
            return None;
        }
        let names = self.proxy_names();
        let x = self.middles();
        let mut plot = Plot::new();
        if names.len() <= PROXIES_DRAWN_MAX {
            for (name, colour) in names.iter().zip(SERIES) {
                plot.add_trace(self.line(&plotly_text(name), &x, self.of_proxy(name, share), colour));
            }
        } else {
            self.add_spread(&mut plot, &x, share);
        }
        let layout = self.layout(value_axis("% of a core"));
        let note = "How much of one core each proxy used.".to_owned();
        Some(chart("cpu", "CPU per proxy", note, false, plot, layout))
    }

    /// How late the generator was, against what it may be.
    fn lag(&self) -> Option<Chart> {
        let of = |pick: fn(&crate::measure::Quantiles) -> f64| {
            self.points.iter().map(move |p| p.delays(Delay::Lag).map(pick))
        };
        let limit = self.recorder.config().limits.lag_p99_max.as_secs_f64();
        let p99: Vec<_> = of(|q| q.p99_s).collect();
        let max: Vec<_> = of(|q| q.max_s).collect();
        let (least, most) = axes::span(p99.iter().chain(&max).flatten().copied().chain([limit]))?;
        if p99.iter().all(Option::is_none) {
            return None;
        }
        let x = self.middles();
        let mut plot = Plot::new();
        plot.add_trace(self.delay_line("latest", &x, max, SKY));
        plot.add_trace(self.delay_line("p99", &x, p99, BLUE));
        let line = ShapeLine::new().color(VERMILION).width(1.5).dash(DashType::Dash);
        let limit_line = Shape::new()
            .shape_type(ShapeType::Line)
            .x_ref("paper")
            .x0(0.0)
            .x1(1.0)
            .y0(limit)
            .y1(limit)
            .line(line);
        let mut shapes = self.shades();
        shapes.push(limit_line);
        let layout = self.layout(axes::delay_axis(least, most)).shapes(shapes);
        let note = format!(
            "How much later than planned INVITEs were sent. A p99 above the dashed line ({}) makes the run invalid.",
            format::delay(limit)
        );
        Some(chart("lag", "Lag of the generator", note, false, plot, layout))
    }

    fn middles(&self) -> Vec<f64> {
        self.points.iter().map(|p| self.unit.of(p.middle_s())).collect()
    }

    fn proxy_names(&self) -> Vec<String> {
        let names: std::collections::BTreeSet<&String> =
            self.points.iter().flat_map(|p| p.proxies.iter().map(|(name, _)| name)).collect();
        names.into_iter().cloned().collect()
    }

    fn of_proxy(
        &self,
        name: &str,
        value: impl Fn(&Point, &crate::measure::ProxyWork) -> Option<f64>,
    ) -> Vec<Option<f64>> {
        let find = |p: &Point| p.proxies.iter().find(|(n, _)| n == name).and_then(|(_, w)| value(p, w));
        self.points.iter().map(find).collect()
    }

    /// The least, mean and most of what the proxies did, for more of them than lines can be told apart.
    fn add_spread(
        &self,
        plot: &mut Plot,
        x: &[f64],
        value: impl Fn(&Point, &crate::measure::ProxyWork) -> Option<f64>,
    ) {
        let (mut least, mut mean, mut most) = (Vec::new(), Vec::new(), Vec::new());
        for p in self.points {
            let all: Vec<f64> = p.proxies.iter().filter_map(|(_, w)| value(p, w)).collect();
            least.push(all.iter().copied().reduce(f64::min));
            most.push(all.iter().copied().reduce(f64::max));
            mean.push((!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64));
        }
        let thin = || Line::new().color(SKY).width(1.0);
        let least = self.line("least used", x, least, SKY).line(thin());
        plot.add_trace(self.line("most used", x, most, SKY).line(thin()));
        plot.add_trace(least.fill(Fill::ToNextY).fill_color(faint(SKY)));
        plot.add_trace(self.line("mean", x, mean, BLUE));
    }

    fn line(
        &self,
        name: &str,
        x: &[f64],
        y: Vec<Option<f64>>,
        colour: &'static str,
    ) -> Box<Scatter<f64, Option<f64>>> {
        Scatter::new(x.to_vec(), y)
            .name(name)
            .mode(self.mode())
            .connect_gaps(false)
            .marker(Marker::new().size(5).color(colour))
            .hover_template("%{y:.1f}")
            .line(Line::new().color(colour).width(2.0))
    }

    fn delay_line(
        &self,
        name: &str,
        x: &[f64],
        y: Vec<Option<f64>>,
        colour: &'static str,
    ) -> Box<Scatter<f64, Option<f64>>> {
        let text = y.iter().map(|v| v.map(format::delay).unwrap_or_default()).collect();
        self.line(name, x, y, colour).text_array(text).hover_template("%{text}")
    }

    /// A line of few points shows them.
    fn mode(&self) -> Mode {
        if self.points.len() <= 24 { Mode::LinesMarkers } else { Mode::Lines }
    }

    fn layout(&self, y: Axis) -> Layout {
        base_layout(axes::time_axis(self.unit, self.end()), y).shapes(self.shades())
    }

    fn end(&self) -> f64 {
        self.points.last().map_or(1.0, |p| self.unit.of(p.start_s + p.width_s))
    }

    /// The stretches that the totals leave out: the warm-up, and what came after the load.
    fn shades(&self) -> Vec<Shape> {
        let config = self.recorder.config();
        let shade = |from: f64, to: f64| {
            Shape::new()
                .shape_type(ShapeType::Rect)
                .layer(ShapeLayer::Below)
                .y_ref("paper")
                .x0(from)
                .x1(to)
                .y0(0.0)
                .y1(1.0)
                .fill_color(SHADE)
                .line(ShapeLine::new().width(0.0))
        };
        let warm = self.unit.of(config.warmup.as_secs_f64());
        let load = self.unit.of(config.duration.as_secs_f64());
        let mut shades = Vec::new();
        if warm > 0.0 {
            shades.push(shade(0.0, warm.min(self.end())));
        }
        if load < self.end() {
            shades.push(shade(load, self.end()));
        }
        shades
    }

    /// How a chart over time is to be read.
    fn reading(&self, what: &str) -> String {
        let width = self.points.first().map_or(0.0, |p| p.width_s);
        let warm =
            if self.recorder.config().warmup.is_zero() { "" } else { " Shaded: warm-up, not in the totals." };
        format!("Each point is {} of {what}.{warm}", format::length(width))
    }
}

fn delay_meaning(kind: Delay) -> &'static str {
    match kind {
        Delay::Srd => "answered calls, from the planned INVITE to the first 180 or 200",
        Delay::SrdFailed => "failed calls, from the planned INVITE to the failure response",
        Delay::Rrd => "registrations, from the planned REGISTER to the 200, challenge included",
        Delay::Sdd => "completed calls, from the BYE to its 200",
        Delay::Lag => "calls, from the planned to the real sending of the INVITE",
    }
}

/// Points (nines, seconds) of the percentile curve, as far as there are calls for: nines are −log10(1 − share).
fn curve(delays: &Delays) -> Vec<(f64, f64)> {
    const PER_DECADE: u32 = 24;
    let nines_max = (delays.count() as f64).log10().max(0.5);
    let steps = (nines_max * f64::from(PER_DECADE)).floor() as u32;
    let at = |i: u32| {
        let nines = f64::from(i) / f64::from(PER_DECADE);
        delays.quantile(1.0 - 10_f64.powf(-nines)).map(|s| (nines, s))
    };
    (0..=steps).filter_map(at).collect()
}

fn chart(
    id: &'static str,
    title: &'static str,
    note: String,
    wide: bool,
    mut plot: Plot,
    layout: Layout,
) -> Chart {
    plot.set_layout(layout);
    plot.set_configuration(
        Configuration::new().responsive(true).display_logo(false).display_mode_bar(DisplayModeBar::False),
    );
    Chart { id, title, note, wide, plot }
}

fn base_layout(x: Axis, y: Axis) -> Layout {
    let legend = Legend::new()
        .orientation(Orientation::Horizontal)
        .x(0.0)
        .y(1.02)
        .x_anchor(Anchor::Left)
        .y_anchor(Anchor::Bottom)
        .font(Font::new().size(12).color(INK));
    Layout::new()
        .auto_size(true)
        .show_legend(true)
        .legend(legend)
        .hover_mode(HoverMode::XUnified)
        .hover_label(
            plotly::common::Label::new()
                .background_color(PAPER)
                .border_color(GRID)
                .font(Font::new().color(INK)),
        )
        .margin(Margin::new().left(58).right(14).top(34).bottom(44))
        .paper_background_color("rgba(0,0,0,0)")
        .plot_background_color("rgba(0,0,0,0)")
        .font(
            Font::new()
                .family("system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif")
                .size(12)
                .color(INK),
        )
        .x_axis(x)
        .y_axis(y)
}

fn value_axis(title: &str) -> Axis {
    axes::plain(title).range_mode(RangeMode::ToZero).type_(AxisType::Linear)
}

pub(super) fn axis_title(text: &str) -> Title {
    Title::with_text(text).font(Font::new().size(12).color(INK))
}

/// A text that plotly shows as it is.
fn plotly_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn faint(colour: &str) -> String {
    format!("{colour}1f")
}

fn soft(colour: &str) -> String {
    format!("{colour}99")
}
