//! What a seed stands for: a cluster, its users, its load, and what happens to it. Drawn before anything runs, so that
//! a scenario can be printed, and so that a change of the code under test does not change what is asked of it.

use std::time::Duration;

use busyhour_engine::{Instant, Rng};
use busyhour_roles::ua::{Answering, PlannedCall};
use busyhour_sim::{Cpu, FixedCost, HostConfig, LinkModel, Quota};

/// How much a scenario disturbs its cluster, and so what may be demanded of it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Weather {
    /// No loss and no faults, though datagrams are late, doubled and out of order: no call may fail, whatever happens
    /// to the membership.
    Calm,
    /// Datagrams are lost, and queues overflow.
    Rough,
    /// Processes crash and stall, and networks part, too.
    Storm,
}

/// One of the cluster's processes.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// The balancer with this index.
    Balancer(usize),
    /// The proxy with this index, those that are added later included.
    Proxy(usize),
    /// The fleet of user agents with this index.
    Fleet(usize),
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Upset {
    /// A process dies, and starts anew after a while; `None`: when everything is healed.
    Crash(Who, Option<Duration>),
    /// A process stands still for a while.
    Pause(Who, Duration),
    /// These processes and all others cannot reach each other for a while.
    Partition {
        /// One side of it.
        side: Vec<Who>,
        /// Whether only what this side sends is stopped.
        one_way: bool,
        /// How long.
        lasts: Duration,
    },
    /// Every link is like this for a while.
    Links(LinkModel, Duration),
    /// A process has another CPU for a while.
    Cpu(Who, Cpu, Duration),
}

/// A change of the membership.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// This proxy starts, or starts again after it was removed, and is a member.
    Add(usize),
    /// This proxy gets no new calls; once it has nothing left to do, it is removed and stops.
    Drain(usize),
    /// This proxy gets another share of the calls.
    Weight(usize, u32),
}

/// A fleet of user agents.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct FleetPlan {
    /// How its users answer.
    pub answer: Answering,
    /// How long its users let it ring.
    pub patience: Duration,
}

/// A cluster and what happens to it: see the module.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Where it comes from.
    pub seed: u64,
    /// How bad it is.
    pub weather: Weather,
    /// How many balancers there are.
    pub balancers: usize,
    /// How many proxies there are at the start.
    pub proxies: usize,
    /// How many there are with those that are added.
    pub proxies_max: usize,
    /// The fleets.
    pub fleets: Vec<FleetPlan>,
    /// For every user the fleets at which it has a phone: one or two.
    pub homes: Vec<Vec<usize>>,
    /// Every link between two hosts.
    pub link: LinkModel,
    /// What everything costs.
    pub cost: FixedCost,
    /// The hosts of balancers and proxies.
    pub host: HostConfig,
    /// The most server transactions of a proxy.
    pub transactions_max: usize,
    /// The `expires` that users register with, in seconds.
    pub expires_s: u32,
    /// Timer C of the proxies.
    pub timer_c: Duration,
    /// When each user registers, and at which fleet.
    pub registrations: Vec<(Instant, usize, u32)>,
    /// Who calls whom: the calling fleet, and the call. No two are planned for the same instant.
    pub calls: Vec<(usize, PlannedCall)>,
    /// Changes of the membership.
    pub steps: Vec<(Instant, Step)>,
    /// What goes wrong.
    pub upsets: Vec<(Instant, Upset)>,
    /// When everything is healed.
    pub heal_at: Instant,
}

/// Users register before this, and call after it.
const REGISTERED: Duration = Duration::from_secs(3);
/// The longest time in a call.
const HOLD_MAX: Duration = Duration::from_secs(12);
/// The longest time that a process stands still. After 64·T1 it would find its transactions timed out, and take what it
/// had not read yet for something new.
const PAUSE_MAX: Duration = Duration::from_secs(20);
/// The most changes of the membership: fewer than the epochs that a table can hold, so none is forgotten untimely.
const STEPS_MAX: u64 = 5;

/// The scenario that a seed stands for.
pub fn draw(seed: u64) -> Scenario {
    let mut rng = Rng::from_seed(seed);
    let weather = match rng.below(10) {
        0..=2 => Weather::Calm,
        3..=4 => Weather::Rough,
        _ => Weather::Storm,
    };
    let cost = some_cost(&mut rng);
    let link = some_link(&mut rng, weather);
    let host = some_host(&mut rng, weather);
    let (balancers, proxies) = (1 + rng.below(3) as usize, 1 + rng.below(5) as usize);
    let fleets: Vec<FleetPlan> = (0..1 + rng.below(3)).map(|_| some_fleet(&mut rng)).collect();
    let homes: Vec<Vec<usize>> = (0..2 + rng.below(11)).map(|_| some_home(&mut rng, fleets.len())).collect();
    let span = Duration::from_secs(5 + rng.below(25));
    let calls_max = if weather == Weather::Calm { 150 } else { 400 };
    let count = 10 + rng.below(calls_max);
    let calls = some_calls(&mut rng, &homes, span, count);
    let (steps, proxies_max) = some_steps(&mut rng, proxies, span);
    let mut scenario = Scenario {
        seed,
        weather,
        balancers,
        proxies,
        proxies_max,
        fleets,
        registrations: some_registrations(&mut rng, &homes),
        homes,
        link,
        cost,
        host,
        transactions_max: if weather != Weather::Calm && rng.chance(0.2) {
            80 + rng.below(100) as usize
        } else {
            10_000
        },
        expires_s: 60 + rng.below(600) as u32,
        timer_c: if rng.chance(0.3) { secs(20) } else { secs(181) },
        calls,
        steps,
        upsets: Vec::new(),
        heal_at: Instant::EPOCH + REGISTERED + span + secs(15 + rng.below(60)),
    };
    if weather == Weather::Storm {
        for _ in 0..1 + rng.below(8) {
            let at = Instant::EPOCH + rng.between(secs(1), REGISTERED + span);
            let upset = scenario.some_upset(&mut rng);
            scenario.upsets.push((at, upset));
        }
    }
    scenario
}

impl Scenario {
    fn some_upset(&self, rng: &mut Rng) -> Upset {
        let longest = secs([1, 8, 40][rng.below(3) as usize]);
        let lasts = rng.between(Duration::from_millis(50), longest);
        match rng.below(8) {
            0 => Upset::Crash(Who::Balancer(rng.below(self.balancers as u64) as usize), self.comes_back(rng)),
            1 | 2 => Upset::Crash(Who::Proxy(rng.below(self.proxies as u64) as usize), self.comes_back(rng)),
            3 | 4 => Upset::Pause(self.anybody(rng), lasts.min(PAUSE_MAX)),
            5 => {
                let side = self.everybody().into_iter().filter(|_| rng.chance(0.4)).collect();
                Upset::Partition { side, one_way: rng.chance(0.3), lasts }
            }
            6 => {
                let worse = LinkModel {
                    loss: rng.unit() * 0.6,
                    jitter: rng.between(Duration::ZERO, secs(1)),
                    ..self.link
                };
                Upset::Links(worse, lasts)
            }
            _ => {
                Upset::Cpu(self.anybody(rng), Cpu { speed: 0.02 + rng.unit() * 0.3, ..Cpu::default() }, lasts)
            }
        }
    }

    fn comes_back(&self, rng: &mut Rng) -> Option<Duration> {
        rng.chance(0.8).then(|| rng.between(Duration::from_millis(1), secs(20)))
    }

    fn anybody(&self, rng: &mut Rng) -> Who {
        let all = self.everybody();
        all[rng.below(all.len() as u64) as usize]
    }

    fn everybody(&self) -> Vec<Who> {
        let balancers = (0..self.balancers).map(Who::Balancer);
        let proxies = (0..self.proxies).map(Who::Proxy);
        balancers.chain(proxies).chain((0..self.fleets.len()).map(Who::Fleet)).collect()
    }

    /// Whether a call may end like this in a cluster that has no fault: it is answered before the caller loses patience,
    /// or not, and a busy phone may say so.
    pub fn is_expected(
        &self,
        fleet: usize,
        call: &PlannedCall,
        outcome: busyhour_roles::ua::Outcome,
    ) -> bool {
        use busyhour_roles::ua::Outcome;
        let phones = || self.homes[call.callee as usize].iter().map(|&home| &self.fleets[home].answer);
        let patience = self.fleets[fleet].patience;
        match outcome {
            Outcome::Completed => phones().any(|a| a.answer_after < patience && a.busy_share < 1.0),
            Outcome::Refused(486) => phones().any(|a| a.busy_share > 0.0),
            Outcome::InviteTimeout => phones().any(|a| a.answer_after > patience),
            Outcome::Refused(_)
            | Outcome::ByeTimeout
            | Outcome::ByeRefused(_)
            | Outcome::Unfinished
            | Outcome::NotStarted => false,
        }
    }
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn some_link(rng: &mut Rng, weather: Weather) -> LinkModel {
    let delay = Duration::from_micros([50, 1000, 40_000][rng.below(3) as usize]).mul_f64(0.5 + rng.unit());
    let sometimes = |rng: &mut Rng, p_max: f64| if rng.chance(0.5) { rng.unit() * p_max } else { 0.0 };
    LinkModel {
        delay,
        jitter: delay.mul_f64(rng.unit()),
        loss: if weather == Weather::Calm { 0.0 } else { sometimes(rng, 0.25) },
        duplicate: sometimes(rng, 0.2),
        reorder: sometimes(rng, 0.2),
        reorder_delay: rng.between(Duration::ZERO, delay * 2),
        ..LinkModel::IDEAL
    }
}

fn some_cost(rng: &mut Rng) -> FixedCost {
    let cost = |rng: &mut Rng, us_max| Duration::from_micros(rng.below(us_max));
    FixedCost {
        receive: cost(rng, 800),
        send: cost(rng, 300),
        timeout: cost(rng, 50),
        command: cost(rng, 100),
    }
}

fn some_host(rng: &mut Rng, weather: Weather) -> HostConfig {
    if weather == Weather::Calm {
        return HostConfig::default();
    }
    let (period, percent) = (Duration::from_millis(100), 30 + rng.below(170) as u32);
    let quota = rng.chance(0.3).then(|| Quota { period, quota: period * percent / 100 });
    HostConfig {
        cpu: Cpu { quota, speed: 0.3 + rng.unit() },
        receive_queue_bytes_max: if rng.chance(0.3) { 20_000 + rng.below(100_000) } else { 212_992 },
        ..HostConfig::default()
    }
}

/// A call is answered seconds before its caller loses patience or seconds after, so what happens is never a matter of
/// what the way there and back takes.
fn some_fleet(rng: &mut Rng) -> FleetPlan {
    let answer_after = match rng.below(10) {
        0..=2 => Duration::ZERO,
        3..=7 => rng.between(Duration::ZERO, secs(2)),
        _ => rng.between(secs(8), secs(12)),
    };
    let ring_after = match rng.below(3) {
        0 => None,
        1 => Some(Duration::ZERO),
        _ => Some(answer_after.mul_f64(rng.unit())),
    };
    let busy_share = if rng.chance(0.3) { rng.unit() * 0.5 } else { 0.0 };
    FleetPlan {
        answer: Answering { ring_after, answer_after, busy_share },
        patience: if rng.chance(0.4) { secs(6) } else { secs(20) },
    }
}

fn some_home(rng: &mut Rng, fleets: usize) -> Vec<usize> {
    let first = rng.below(fleets as u64) as usize;
    let second = (first + 1) % fleets;
    if second != first && rng.chance(0.25) { vec![first, second] } else { vec![first] }
}

fn some_registrations(rng: &mut Rng, homes: &[Vec<usize>]) -> Vec<(Instant, usize, u32)> {
    let phones = homes.iter().enumerate().flat_map(|(user, at)| at.iter().map(move |&fleet| (fleet, user)));
    let mut at = || Instant::EPOCH + rng.between(Duration::from_millis(10), REGISTERED / 2);
    phones.map(|(fleet, user)| (at(), fleet, user as u32)).collect()
}

fn some_calls(rng: &mut Rng, homes: &[Vec<usize>], span: Duration, count: u64) -> Vec<(usize, PlannedCall)> {
    let mut calls: Vec<(usize, PlannedCall)> = (0..count)
        .map(|number| {
            let at = Instant::EPOCH + REGISTERED + rng.between(Duration::ZERO, span);
            // The last digits of the time are the call's number: no two calls are planned for the same instant.
            let at = Instant::from_nanos(at.as_nanos() / 1000 * 1000 + number);
            let caller = rng.below(homes.len() as u64) as usize;
            let callee = rng.below(homes.len() as u64) as u32;
            let fleet = homes[caller][rng.below(homes[caller].len() as u64) as usize];
            let hold = if rng.chance(0.2) { Duration::ZERO } else { rng.between(Duration::ZERO, HOLD_MAX) };
            (fleet, PlannedCall { at, caller: caller as u32, callee, hold })
        })
        .collect();
    calls.sort_by_key(|(_, call)| call.at);
    calls
}

fn some_steps(rng: &mut Rng, proxies: usize, span: Duration) -> (Vec<(Instant, Step)>, usize) {
    let mut times: Vec<Instant> = (0..rng.below(STEPS_MAX + 1))
        .map(|_| Instant::EPOCH + rng.between(secs(1), REGISTERED + span + secs(5)))
        .collect();
    times.sort_unstable();
    let mut known = proxies;
    let steps = times
        .into_iter()
        .map(|at| {
            let some = rng.below(known as u64) as usize;
            let step = match rng.below(8) {
                0..=2 => {
                    known += 1;
                    Step::Add(known - 1)
                }
                3 => Step::Add(some),
                4..=6 => Step::Drain(some),
                _ => Step::Weight(some, 1 + rng.below(4) as u32),
            };
            (at, step)
        })
        .collect();
    (steps, known)
}
