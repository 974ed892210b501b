//! What goes wrong in a scenario, how it is healed, and the calls that have to complete afterwards.

use std::time::Duration;

use busyhour_roles::ua;
use busyhour_sim::{Fault, LinkModel};

use crate::role::RoleCommand;

use super::scenario::{Upset, Who};
use super::world::{Part, Task, World, name_of};

impl World {
    pub(super) fn upset(&mut self, upset: Upset) {
        let now = self.sim.now();
        let ends = match upset {
            Upset::Crash(who, comes_back) => {
                let part = self.parts.get_mut(&who).expect("only parts of the start crash");
                if part.is_gone || !part.is_up {
                    return;
                }
                part.is_up = false;
                let (node, address) = (part.node, part.address);
                self.has_crashed |= matches!(who, Who::Proxy(_));
                self.wire.borrow_mut().crash(now, address);
                self.fault(Fault::Crash(node));
                comes_back.map(|after| (after, Task::Restart(who)))
            }
            Upset::Pause(who, lasts) => {
                let (node, address) = (self.parts[&who].node, self.parts[&who].address);
                self.wire.borrow_mut().stall(now + lasts, address);
                self.fault(Fault::Pause(node));
                Some((lasts, Task::Heal(Fault::Resume(node))))
            }
            Upset::Partition { side, one_way, lasts } => {
                let (a, b) = self.parts.values().partition::<Vec<_>, _>(|p| side.contains(&p.who));
                let hosts = |parts: Vec<&Part>| parts.into_iter().map(|p| p.host).collect();
                let number = self.partitions;
                self.partitions += 1;
                let names: Vec<String> = side.iter().map(|&who| name_of(who)).collect();
                let (a, b) = (hosts(a), hosts(b));
                self.note(&format!(
                    "partition {number} cuts off {names:?}{}",
                    if one_way { ", one way" } else { "" }
                ));
                self.fault(Fault::Partition { number, a, b, one_way });
                Some((lasts, Task::Heal(Fault::Heal(number))))
            }
            Upset::Links(model, lasts) => {
                self.note(&format!("links: {model:?}"));
                self.fault(Fault::AllLinks(Some(model)));
                Some((lasts, Task::Heal(Fault::AllLinks(None))))
            }
            Upset::Cpu(who, cpu, lasts) => {
                let host = self.parts[&who].host;
                self.note(&format!("{}: {cpu:?}", name_of(who)));
                self.fault(Fault::Cpu(host, Some(cpu)));
                Some((lasts, Task::Heal(Fault::Cpu(host, None))))
            }
        };
        if let Some((after, task)) = ends {
            self.add_task(now + after, task);
        }
    }

    /// Ends every fault; the links become ideal but for their delay.
    pub(super) fn heal(&mut self) {
        self.tasks.retain(|_, task| matches!(task, Task::Tick | Task::Step(_)));
        self.sim.heal_all();
        self.fault(Fault::AllLinks(Some(LinkModel::with_delay(Duration::from_millis(1)))));
        let down: Vec<Who> = self.parts.values().filter(|p| !p.is_up && !p.is_gone).map(|p| p.who).collect();
        for who in down {
            self.restart(who);
        }
        self.note("everything is healed");
    }

    /// Everybody registers again, and everybody who can calls and is called.
    pub(super) fn call_again(&mut self) {
        let now = self.sim.now();
        self.note("everybody registers again, then calls");
        for (n, (_, fleet, user)) in self.scenario.registrations.clone().into_iter().enumerate() {
            let at = now + Duration::from_millis(50 * n as u64);
            self.command(Who::Fleet(fleet), RoleCommand::Fleet(ua::Command::Register { user, at }));
        }
        let users = self.scenario.homes.len();
        for n in 0..2 * users {
            let (caller, callee) = (n % users, (n + 1 + n / users) % users);
            let at = now + Duration::from_secs(5) + Duration::from_millis(200 * n as u64);
            let fleet = self.scenario.homes[caller][n / users % self.scenario.homes[caller].len()];
            let hold = Duration::from_millis(700 * (n as u64 % 4));
            self.call(fleet, ua::PlannedCall { at, caller: caller as u32, callee: callee as u32, hold });
        }
    }
}
