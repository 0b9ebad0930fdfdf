//! On what it was measured, and what makes a figure doubtful.
use std::{
    fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Serialize;

/// More processor time of others than this, in processors, makes a machine busy.
const BUSY: f64 = 0.05;

/// Where `/proc` and `/sys` lie, for tests elsewhere.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
}

impl Default for Machine {
    fn default() -> Self {
        Self { root: "/".into() }
    }
}

/// Clock ticks that the processors have spent, since the start of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    all: u64,
    stolen: u64,
    own: u64,
}

/// From here on: what others take of the processors.
#[derive(Clone, Debug)]
pub struct Watch {
    machine: Machine,
    start: Option<Ticks>,
}

/// What a report says of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// The processor, or the board.
    pub processor: String,
    /// How many threads it runs at a time that this process may use.
    pub processors: usize,
    /// Of the kernel.
    pub kernel: String,
    /// `performance` and the like, where the processors have one; with all that are set.
    pub governor: Option<String>,
    /// Whether the processors' clocks are held at one rate; nothing where that can't be known.
    pub clocks_locked: Option<bool>,
    /// Load of the last minute, before.
    pub load: Option<f64>,
    /// Processors that others kept busy meanwhile.
    pub others: Option<f64>,
    /// Processors that a hypervisor kept back meanwhile.
    pub stolen: Option<f64>,
    /// Seconds since 1970.
    pub unix_time: u64,
}

impl Machine {
    /// As if `/` were there.
    pub fn at(root: &Path) -> Self {
        Self { root: root.into() }
    }

    fn read(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim_matches(['\n', '\0', ' ']).to_owned())
    }

    /// Starts to look at what others take.
    pub fn watch(&self) -> Watch {
        Watch {
            machine: self.clone(),
            start: self.ticks(),
        }
    }

    fn ticks(&self) -> Option<Ticks> {
        let stat = self.read("proc/stat")?;
        let all: Vec<u64> = (stat.lines().next()?.strip_prefix("cpu ")?)
            .split_whitespace()
            .map_while(|n| n.parse().ok())
            .collect();
        // user nice system idle iowait irq softirq steal; guests are in user already.
        let &[user, nice, system, idle, iowait, irq, softirq, stolen, ..] = all.as_slice() else {
            return None;
        };
        let busy = user + nice + system + irq + softirq;
        let own = self.read("proc/self/stat")?;
        // The name may hold anything, and ends with the last bracket.
        let (_, own) = own.rsplit_once(')')?;
        let mut own = own
            .split_whitespace()
            .skip(11)
            .map_while(|n| n.parse::<u64>().ok());
        let own: u64 = own.next()? + own.next()?;
        Some(Ticks {
            busy,
            all: busy + idle + iowait + stolen,
            stolen,
            own,
        })
    }

    /// The values of a file of each processor, each once.
    fn of_processors(&self, name: &str) -> Vec<String> {
        let folder = self.root.join("sys/devices/system/cpu");
        let mut values: Vec<String> = (fs::read_dir(folder).into_iter().flatten().flatten())
            .filter_map(|entry| {
                let text = fs::read_to_string(entry.path().join("cpufreq").join(name)).ok()?;
                Some(text.trim().to_owned())
            })
            .collect();
        values.sort();
        values.dedup();
        values
    }

    fn processor(&self) -> String {
        let board = self.read("sys/firmware/devicetree/base/model");
        let named = |cpuinfo: String| {
            let line = cpuinfo.lines().find(|l| l.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        board
            .or_else(|| self.read("proc/cpuinfo").and_then(named))
            .unwrap_or_else(|| "unknown".into())
    }

    /// Held at one rate: the least and the most that is allowed are the same on each processor.
    fn clocks_locked(&self) -> Option<bool> {
        let [least, most] =
            ["scaling_min_freq", "scaling_max_freq"].map(|name| self.of_processors(name));
        (!most.is_empty()).then(|| most.len() == 1 && least == most)
    }
}

impl Watch {
    /// What there is to say of the machine now.
    pub fn facts(&self) -> Facts {
        let m = &self.machine;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let load = m.read("proc/loadavg");
        let governors = m.of_processors("scaling_governor");
        let ticks = self.start.zip(m.ticks());
        let passed = ticks.and_then(|(a, b)| {
            // All processors together count as many ticks as there are processors.
            let all = b.all.saturating_sub(a.all);
            let lines = m.read("proc/stat")?;
            let online = lines.lines().filter(|l| l.starts_with("cpu")).count() - 1;
            (all > 0).then_some((a, b, online as f64 / all as f64))
        });
        let share = |of: fn(&Ticks) -> u64| {
            passed.map(|(a, b, per)| of(&b).saturating_sub(of(&a)) as f64 * per)
        };
        let others = share(|t| t.busy).zip(share(|t| t.own));
        Facts {
            processor: m.processor(),
            processors,
            kernel: m.read("proc/sys/kernel/osrelease").unwrap_or_default(),
            governor: (!governors.is_empty()).then(|| governors.join(", ")),
            clocks_locked: m.clocks_locked(),
            load: load.and_then(|l| l.split(' ').next()?.parse().ok()),
            others: others.map(|(busy, own)| (busy - own).max(0.0)),
            stolen: share(|t| t.stolen),
            unix_time: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |t| t.as_secs()),
        }
    }
}

impl Facts {
    /// What makes figures from this machine doubtful, in words.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        match self.clocks_locked {
            Some(true) => {}
            Some(false) => doubts.push(format!(
                "the processor's clocks are not locked (governor {})",
                self.governor.as_deref().unwrap_or("unknown")
            )),
            None => doubts.push("whether the processor's clocks are locked is unknown".into()),
        }
        let told = [("other work", self.others), ("the hypervisor", self.stolen)];
        for (who, taken) in told {
            if let Some(taken) = taken.filter(|&taken| taken > BUSY) {
                doubts.push(format!(
                    "the machine was busy: {who} took {taken:.2} of {} processors",
                    self.processors
                ));
            }
        }
        if self.others.is_none() {
            doubts.push("whether the machine was busy is unknown".into());
        }
        doubts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn stat(root: &Path, user: u64, idle: u64, stolen: u64, own: u64) {
        let lines = format!(
            "cpu  {user} 0 0 {idle} 0 0 0 {stolen} 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0\nintr 5\n"
        );
        write(root, "proc/stat", &lines);
        let own = format!("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 {own} 0 0 0\n");
        write(root, "proc/self/stat", &own);
    }

    #[test]
    fn a_quiet_machine_with_locked_clocks_leaves_no_doubt() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        stat(root, 1000, 1000, 0, 100);
        for cpu in ["cpu0", "cpu1"] {
            for (name, value) in [
                ("scaling_min_freq", "1500000"),
                ("scaling_max_freq", "1500000"),
                ("scaling_governor", "performance"),
            ] {
                let path = format!("sys/devices/system/cpu/{cpu}/cpufreq/{name}");
                write(root, &path, &format!("{value}\n"));
            }
        }
        write(root, "proc/loadavg", "0.25 0.1 0.1 1/100 5\n");
        write(
            root,
            "proc/cpuinfo",
            "processor: 0\nmodel name\t: A Processor\n",
        );
        let watch = Machine::at(root).watch();
        // One of the two processors was busy, with this process.
        stat(root, 1100, 1100, 0, 198);
        let facts = watch.facts();
        assert_eq!(facts.processor, "A Processor");
        assert_eq!(facts.load, Some(0.25));
        assert_eq!(facts.governor.as_deref(), Some("performance"));
        assert_eq!(facts.clocks_locked, Some(true));
        assert!((facts.others.unwrap() - 0.02).abs() < 1e-9);
        assert_eq!(facts.doubts(), [""; 0]);
    }

    #[test]
    fn what_makes_figures_doubtful_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        stat(root, 1000, 1000, 0, 100);
        for (cpu, least) in [("cpu0", "800000"), ("cpu1", "800000")] {
            let folder = format!("sys/devices/system/cpu/{cpu}/cpufreq");
            write(root, &format!("{folder}/scaling_min_freq"), least);
            write(root, &format!("{folder}/scaling_max_freq"), "3000000");
            write(root, &format!("{folder}/scaling_governor"), "schedutil");
        }
        let watch = Machine::at(root).watch();
        stat(root, 1150, 1000, 50, 200);
        let doubts = watch.facts().doubts();
        let processors = watch.facts().processors;
        assert_eq!(
            doubts,
            [
                "the processor's clocks are not locked (governor schedutil)".to_owned(),
                format!("the machine was busy: other work took 0.50 of {processors} processors"),
                format!(
                    "the machine was busy: the hypervisor took 0.50 of {processors} processors"
                ),
            ]
        );
        let nowhere = Machine::at(&root.join("nowhere")).watch().facts();
        assert_eq!(nowhere.doubts().len(), 2);
        assert!(nowhere.doubts().iter().all(|d| d.ends_with("unknown")));
    }
}
