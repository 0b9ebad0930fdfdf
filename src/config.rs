//! `roadloop.toml`, typed and validated.
//!
//! Every section has defaults, so that a file states only what differs; an unknown key is an
//! error. The preset gives the values that the file does not state. Units stand in key names.
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    files,
    frame::{Camera, Size},
    frame_loop::LoopConfig,
    live::{CalibrationConfig, LiveConfig},
    realtime::RealtimeConfig,
    service::OutputConfig,
    sink::recorder::RecordConfig,
    source::{
        FaultConfig, InputConfig, MaskSource, MonoConfig, SourceConfig, SourceKind,
        SyntheticConfig, cameras::CamerasConfig,
    },
    stage::{egomotion, foreground, forest, logo, road, stereo, stixel},
};

/// The most stixels that a frame may have room for. Some ten such lists are kept.
pub const MAX_STIXELS: usize = 1 << 22;

/// A set of defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// The repaired model, for use on the road.
    #[default]
    Default,
    /// The model of the paper and its public implementation, for comparison.
    Paper,
}

impl Preset {
    /// The name in the configuration and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Preset::Default => "default",
            Preset::Paper => "paper",
        }
    }
}

/// All of `roadloop.toml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Which defaults hold for what the file does not state.
    pub preset: Preset,
    /// The rectified camera, where no calibration file gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub camera: Option<Camera>,
    /// What happens to pictures before they enter the loop.
    pub input: InputConfig,
    /// Where frames come from.
    pub source: SourceConfig,
    /// The stereo stage.
    pub stereo: stereo::Params,
    /// The road stage.
    pub road: road::Params,
    /// The stixel stage.
    pub stixel: stixel::Params,
    /// Deadline and budgets.
    pub frame_loop: LoopConfig,
    /// The GPU. Read and checked by every build, used by one with the feature `cuda`.
    pub cuda: CudaConfig,
    /// The mono camera.
    #[serde(skip_serializing_if = "is_default")]
    pub mono: MonoConfig,
    /// Live cameras.
    #[serde(skip_serializing_if = "is_default")]
    pub cameras: CamerasConfig,
    /// The egomotion stage.
    #[serde(skip_serializing_if = "is_default")]
    pub egomotion: egomotion::Params,
    /// The foreground stage.
    #[serde(skip_serializing_if = "is_default")]
    pub foreground: foreground::Params,
    /// The logo stage.
    #[serde(skip_serializing_if = "is_default")]
    pub logo: logo::Params,
    /// The calibration of live cameras.
    #[serde(skip_serializing_if = "is_default")]
    pub calibration: CalibrationConfig,
    /// How the live loop runs.
    #[serde(skip_serializing_if = "is_default")]
    pub live: LiveConfig,
    /// What the kernel is asked for.
    #[serde(skip_serializing_if = "is_default")]
    pub realtime: RealtimeConfig,
    /// Where a live loop's results and numbers go.
    #[serde(skip_serializing_if = "is_default")]
    pub output: OutputConfig,
    /// The street that stands in for cameras.
    #[serde(skip_serializing_if = "is_default")]
    pub synthetic: SyntheticConfig,
    /// What goes wrong on purpose.
    #[serde(skip_serializing_if = "is_default")]
    pub fault: FaultConfig,
    /// What is recorded.
    #[serde(skip_serializing_if = "is_default")]
    pub record: RecordConfig,
    /// The label stage: a random forest.
    #[serde(skip_serializing_if = "is_default")]
    pub forest: forest::Params,
}

/// How a thread waits for the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuWait {
    /// Spins: some 8 us sooner, and one core busy while it waits.
    #[default]
    Spin,
    /// Sleeps until the device interrupts.
    Block,
}

/// Which GPU, and what it may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CudaConfig {
    /// The GPU's number, from 0.
    pub device: u32,
    /// How the loop waits for it.
    pub wait: GpuWait,
    /// Most device memory that may be taken, MiB. What a drive needs is known, and refused,
    /// before its first frame.
    pub device_memory_mib: u32,
    /// Most page-locked host memory that may be taken, MiB.
    pub pinned_memory_mib: u32,
    /// Whether egomotion, foreground and logos are computed there too; else on the CPU beside it.
    pub mono: bool,
    /// Whether labels are computed there too; else on the CPU beside it.
    pub labels: bool,
}

impl Default for CudaConfig {
    fn default() -> Self {
        Self {
            device: 0,
            wait: GpuWait::Spin,
            device_memory_mib: 2048,
            pinned_memory_mib: 512,
            mono: true,
            labels: true,
        }
    }
}

#[cfg(feature = "cuda")]
impl CudaConfig {
    /// The same for a context.
    pub fn options(&self) -> crate::cuda::ContextOptions {
        crate::cuda::ContextOptions {
            device: self.device,
            wait: match self.wait {
                GpuWait::Spin => crate::cuda::Wait::Spin,
                GpuWait::Block => crate::cuda::Wait::Block,
            },
            sms: None,
            device_limit: u64::from(self.device_memory_mib) << 20,
            pinned_limit: u64::from(self.pinned_memory_mib) << 20,
        }
    }
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// Not TOML, an unknown key or a value of another type; the text names line and key.
    #[error("{path}: {message}")]
    Syntax {
        /// The file.
        path: String,
        /// Line, column, what was found and expected.
        message: String,
    },
    /// A value that can't be used; the text names the key.
    #[error("{path}: {message}")]
    Value {
        /// The file.
        path: String,
        /// Section, key, what was found and expected.
        message: String,
    },
}

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        let mut config = Self {
            preset,
            ..Self::default()
        };
        if preset == Preset::Paper {
            config.stixel = stixel::Params::paper();
        }
        config
    }

    /// Reads a file; `preset`, where given, goes before the file's own.
    ///
    /// # Errors
    /// When the file can't be read, parsed, or holds a value that can't be used.
    pub fn load(path: &Path, preset: Option<Preset>) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        let text = files::read_text(path, files::MAX_SETTINGS).map_err(|source| {
            let path = name.clone();
            ConfigError::Io { path, source }
        })?;
        let mut config = Self::parse(&text, preset, &name)?;
        config.resolve(path.parent().unwrap_or(Path::new("")));
        Ok(config)
    }

    /// Parses the text of a file called `name`; `preset`, where given, goes before its own.
    ///
    /// # Errors
    /// As [`Config::load`], reading aside.
    pub fn parse(text: &str, preset: Option<Preset>, name: &str) -> Result<Self, ConfigError> {
        let syntax = |e: toml::de::Error| ConfigError::Syntax {
            path: name.into(),
            message: e.to_string().trim_end().into(),
        };
        // Once alone, for errors with line and column; then laid over the preset.
        let alone: Self = toml::from_str(text).map_err(syntax)?;
        let preset = preset.unwrap_or(alone.preset);
        let mut table: toml::Table = toml::Table::try_from(Self::preset(preset))
            .expect("a configuration is a table of plain values");
        overlay(&mut table, text.parse().map_err(syntax)?);
        let mut config: Self = table.try_into().map_err(syntax)?;
        config.preset = preset;
        config.validate(name)?;
        Ok(config)
    }

    /// Paths in the file are relative to it.
    fn resolve(&mut self, folder: &Path) {
        for path in self.paths() {
            if path.is_relative() {
                *path = folder.join(&*path);
            }
        }
    }

    /// Every path in it.
    fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let masks = [&mut self.input.mask, &mut self.mono.mask].into_iter();
        masks
            .filter_map(|mask| match mask {
                Some(MaskSource::Picture(mask)) => Some(mask),
                _ => None,
            })
            .chain(&mut self.foreground.snapshot)
            .chain(&mut self.logo.templates)
            .chain(&mut self.calibration.file)
            .chain(&mut self.calibration.right)
            .chain(&mut self.output.socket)
            .chain(&mut self.output.metrics)
            .chain(&mut self.record.folder)
            .chain(&mut self.forest.model)
    }

    /// Whether the foreground is computed: where the configuration says so, else on drives that
    /// have nothing else.
    pub fn wants_foreground(&self, mono_drive: bool) -> bool {
        self.foreground.enabled.unwrap_or(mono_drive)
    }

    /// Refuses values that can't be used; `name` stands for the file in the message.
    ///
    /// # Errors
    /// With section, key, what was found and what was expected.
    pub fn validate(&self, name: &str) -> Result<(), ConfigError> {
        let wrong = |e: &dyn std::fmt::Display| ConfigError::Value {
            path: name.into(),
            message: e.to_string(),
        };
        if let Some(camera) = &self.camera {
            for (key, value, range) in [
                ("focal_px", camera.focal_px, Camera::FOCAL_PX),
                ("cx", camera.cx, Camera::PRINCIPAL_PX),
                ("cy", camera.cy, Camera::PRINCIPAL_PX),
                ("baseline_m", camera.baseline_m, Camera::BASELINE_M),
            ] {
                if !range.contains(&value) {
                    let (low, high) = (range.start(), range.end());
                    let text = format!("camera.{key} is {value}, expected {low} to {high}");
                    return Err(wrong(&text));
                }
            }
        }
        self.input.validate().map_err(|e| wrong(&e))?;
        self.source.validate().map_err(|e| wrong(&e))?;
        self.mono.validate().map_err(|e| wrong(&e))?;
        self.cameras.validate().map_err(|e| wrong(&e))?;
        self.stereo.validate().map_err(|e| wrong(&e))?;
        self.road.validate().map_err(|e| wrong(&e))?;
        self.stixel.validate().map_err(|e| wrong(&e))?;
        self.egomotion.validate().map_err(|e| wrong(&e))?;
        self.foreground.validate().map_err(|e| wrong(&e))?;
        self.logo.validate().map_err(|e| wrong(&e))?;
        self.live.validate().map_err(|e| wrong(&e))?;
        self.realtime.validate().map_err(|e| wrong(&e))?;
        self.synthetic.validate().map_err(|e| wrong(&e))?;
        self.fault.validate().map_err(|e| wrong(&e))?;
        if !self.fault.is_none() && self.source.kind != SourceKind::Synthetic {
            let text = "fault: faults on purpose, expected source.kind = \"synthetic\" with them";
            return Err(wrong(&text));
        }
        self.record.validate().map_err(|e| wrong(&e))?;
        self.forest.validate().map_err(|e| wrong(&e))?;
        for (key, value) in [
            ("device_memory_mib", self.cuda.device_memory_mib),
            ("pinned_memory_mib", self.cuda.pinned_memory_mib),
        ] {
            if value == 0 {
                return Err(wrong(&format!("cuda.{key} is 0, expected 1 or more")));
            }
        }
        self.frame_loop.validate().map_err(|e| wrong(&e))
    }

    /// Refuses lists of stixels that would take an unreasonable share of memory for images of
    /// this size: more than [`MAX_STIXELS`] in a frame.
    ///
    /// # Errors
    /// With the key, what was found and what was expected.
    pub fn check_size(&self, size: Size) -> Result<(), ConfigError> {
        let columns = (size.width / self.stixel.stixel_width.max(1)).max(1);
        let most = MAX_STIXELS / columns;
        let found = self.stixel.max_stixels_per_column;
        if found <= most {
            return Ok(());
        }
        Err(ConfigError::Value {
            path: "configuration".into(),
            message: format!(
                "stixel.max_stixels_per_column is {found}, expected 1 to {most} for {columns} \
                 columns ({MAX_STIXELS} stixels a frame)"
            ),
        })
    }

    /// The effective configuration as a file that would give it.
    pub fn to_toml(&self) -> String {
        let mut text = self.stated();
        let head = "\n[frame_loop]\n";
        if let Some(at) = text.find(head) {
            text.insert_str(at + head.len(), &self.frame_loop.unsaid());
        }
        // What is left out of it there stands at the end, in the same order.
        let mut all = |name: &str, section: &dyn Fn() -> Result<String, toml::ser::Error>| {
            if !text.contains(&format!("\n[{name}]\n")) {
                let section = section().expect("a section is a table of plain values");
                text += &format!("\n{section}");
            }
        };
        all("frame_loop.admission", &|| {
            let admission = BTreeMap::from([("admission", &self.frame_loop.admission)]);
            section("frame_loop", &admission)
        });
        all("mono", &|| section("mono", &self.mono));
        all("cameras", &|| section("cameras", &self.cameras));
        all("egomotion", &|| section("egomotion", &self.egomotion));
        all("foreground", &|| section("foreground", &self.foreground));
        all("logo", &|| section("logo", &self.logo));
        all("live", &|| section("live", &self.live));
        all("realtime", &|| section("realtime", &self.realtime));
        all("record", &|| section("record", &self.record));
        all("output", &|| section("output", &self.output));
        all("forest", &|| section("forest", &self.forest));
        text
    }

    /// The same without the sections of later stages that say nothing.
    fn stated(&self) -> String {
        toml::to_string(self).expect("a configuration is a table of plain values")
    }

    /// A hash of what in the effective configuration can change results: not deadlines,
    /// budgets and the GPU, and not where files lie (what is in them counts with what reads
    /// them). Sections of later stages count where they say something.
    pub fn hash(&self) -> u64 {
        let mut config = Self {
            frame_loop: LoopConfig::default(),
            cuda: CudaConfig::default(),
            calibration: CalibrationConfig::default(),
            live: LiveConfig::default(),
            realtime: RealtimeConfig::default(),
            output: OutputConfig::default(),
            synthetic: SyntheticConfig::default(),
            fault: FaultConfig::default(),
            record: RecordConfig::default(),
            cameras: CamerasConfig::default(),
            ..self.clone()
        };
        // What is computed of a frame does not depend on where it comes from.
        config.source.kind = SourceKind::default();
        config.paths().for_each(PathBuf::clear);
        xxh3_64(config.stated().as_bytes())
    }
}

/// A section as a file has it.
fn section<T: Serialize>(name: &str, section: &T) -> Result<String, toml::ser::Error> {
    toml::to_string(&BTreeMap::from([(name, section)]))
}

/// Sections that came with later stages are left out of a file as long as they say nothing:
/// so the hash of a configuration without them stays.
fn is_default<T: Default + PartialEq>(section: &T) -> bool {
    *section == T::default()
}

/// Puts the values of `over` in place of those of `table`, section by section.
fn overlay(table: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (table.get_mut(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => overlay(below, above),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}
