//! How the device is, from sysfs: temperature, clocks, throttling, over-current.
use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::frame::Health;

/// The files of sysfs that this device has.
#[derive(Debug, Default)]
pub struct Device {
    temperatures: Vec<PathBuf>,
    cpu_clocks: Vec<PathBuf>,
    gpu_clocks: Vec<PathBuf>,
    cooling: Vec<PathBuf>,
    throttle_events: Vec<PathBuf>,
    over_current_events: Vec<PathBuf>,
}

impl Device {
    /// Looks for them below `sys`: `/sys`, but for tests.
    pub fn find(sys: &Path) -> Self {
        let devfreq = sys.join("class/devfreq");
        let thermal = sys.join("class/thermal");
        Self {
            temperatures: files(&thermal, "thermal_zone", "temp"),
            cpu_clocks: files(
                &sys.join("devices/system/cpu"),
                "cpu",
                "cpufreq/scaling_cur_freq",
            ),
            gpu_clocks: files(&devfreq, "", "cur_freq")
                .into_iter()
                .filter(|path| {
                    let name = path.to_string_lossy();
                    name.contains("gpu") || name.contains("gv11b") || name.contains("ga10b")
                })
                .collect(),
            // A fan that turns holds nothing back.
            cooling: files(&thermal, "cooling_device", "cur_state")
                .into_iter()
                .filter(|path| {
                    let kind = fs::read_to_string(path.with_file_name("type"));
                    kind.is_ok_and(|kind| !kind.to_lowercase().contains("fan"))
                })
                .collect(),
            throttle_events: files(
                &sys.join("devices/system/cpu"),
                "cpu",
                "thermal_throttle/core_throttle_count",
            ),
            // Tegra's soctherm: one counter an over-current alarm.
            over_current_events: (1..=9)
                .flat_map(|n| {
                    files(
                        &sys.join("class/hwmon"),
                        "hwmon",
                        &format!("oc{n}_event_cnt"),
                    )
                })
                .collect(),
        }
    }

    /// What they say now; `None` for what the device does not tell.
    pub fn health(&self) -> Health {
        let max = |paths: &[PathBuf]| paths.iter().filter_map(|p| number(p)).max();
        let sum = |paths: &[PathBuf]| {
            let numbers = paths.iter().filter_map(|p| number(p));
            numbers.reduce(|a, b| a.saturating_add(b))
        };
        let count = |n: i64| u32::try_from(n.max(0)).unwrap_or(u32::MAX - 1);
        Health {
            temperature_mdeg: max(&self.temperatures)
                .map(|t| t.clamp(i32::MIN.into(), i32::MAX.into()) as i32),
            cpu_khz: max(&self.cpu_clocks).map(count),
            gpu_khz: max(&self.gpu_clocks).map(|hz| count(hz / 1000)),
            throttled: max(&self.cooling).map(|state| state > 0),
            throttle_events: sum(&self.throttle_events).map(count),
            over_current_events: sum(&self.over_current_events).map(count),
            cameras: Default::default(),
        }
    }
}

/// `folder/PREFIX…/name`, where there is such a file, in the order of their names.
fn files(folder: &Path, prefix: &str, name: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path().join(name))
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found
}

fn number(path: &Path) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_jetson_is_read() {
        let sys = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("class/thermal/thermal_zone0/temp", "48250\n"),
            ("class/thermal/thermal_zone1/temp", "61500\n"),
            ("class/thermal/cooling_device0/type", "pwm-fan\n"),
            ("class/thermal/cooling_device0/cur_state", "3\n"),
            ("class/thermal/cooling_device1/type", "cpufreq-cpu0\n"),
            ("class/thermal/cooling_device1/cur_state", "0\n"),
            ("class/devfreq/17000000.gpu/cur_freq", "918000000\n"),
            ("class/devfreq/emc/cur_freq", "3199000000\n"),
            ("class/hwmon/hwmon2/oc1_event_cnt", "2\n"),
            ("class/hwmon/hwmon2/oc3_event_cnt", "5\n"),
            (
                "devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",
                "729600\n",
            ),
            (
                "devices/system/cpu/cpu5/cpufreq/scaling_cur_freq",
                "1510400\n",
            ),
        ] {
            write(sys.path(), name, text);
        }
        let device = Device::find(sys.path());
        let health = Health {
            temperature_mdeg: Some(61_500),
            cpu_khz: Some(1_510_400),
            gpu_khz: Some(918_000),
            throttled: Some(false),
            throttle_events: None,
            over_current_events: Some(7),
            ..Health::default()
        };
        assert_eq!(device.health(), health);
        write(sys.path(), "class/thermal/cooling_device1/cur_state", "2\n");
        // What can't be read is not told; nothing else suffers.
        write(sys.path(), "class/hwmon/hwmon2/oc1_event_cnt", "?\n");
        write(sys.path(), "class/hwmon/hwmon2/oc3_event_cnt", "");
        let health = device.health();
        assert_eq!(health.throttled, Some(true));
        assert_eq!(health.over_current_events, None);
    }

    #[test]
    fn a_device_that_tells_nothing_is_no_error() {
        let sys = tempfile::tempdir().unwrap();
        let device = Device::find(&sys.path().join("nowhere"));
        assert_eq!(device.health(), Health::default());
    }
}
