//! Another load beside the loop, for as long as it is alive.
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

/// Bytes that the busy thread goes through over and over: more than a core's own caches hold.
const WORKING_SET: usize = 16 << 20;

/// A thread that is busy until it is dropped.
#[derive(Debug)]
pub struct Competitor {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Competitor {
    /// Takes a core and memory bandwidth, at ordinary priority.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn on_cpu() -> io::Result<Self> {
        Self::start(|stop| {
            let mut words = vec![1u64; WORKING_SET / size_of::<u64>()];
            while !stop.load(Ordering::Relaxed) {
                // A block of steps between looks at the flag.
                for block in words.chunks_mut(4096) {
                    for word in block {
                        *word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    }
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
                std::hint::black_box(&mut words);
            }
        })
    }

    /// Launches the stereo chain on a picture of its own over and over, beside the loop's graphs,
    /// in a context of its own on the whole device. Ends by itself, told in the log, where the
    /// device refuses.
    ///
    /// # Errors
    /// When the system gives no thread.
    #[cfg(feature = "cuda")]
    pub fn on_gpu(config: crate::config::Config) -> io::Result<Self> {
        use crate::{
            calib::Rig,
            cuda::Context,
            frame::{Camera, Size, StereoFrame},
            frame_loop::{ChainError, CudaBackend, Shape, Wanted},
        };
        let size = Size::new(1280, 720);
        let work = move |stop: &AtomicBool| -> Result<(), ChainError> {
            let context = Context::new(&config.cuda.options())?;
            let camera = Camera {
                focal_px: 1000.0,
                cx: 640.0,
                cy: 360.0,
                baseline_m: 0.3,
            };
            let Ok(rectification) = Rig::rectified(camera).rectification(size) else {
                return Ok(());
            };
            let shape = Shape {
                size,
                colour: false,
                stored_disparity: false,
                mask: None,
            };
            let backend =
                CudaBackend::new(&context, &config, &rectification, &shape, Wanted::STIXELS)?;
            backend.stage(&StereoFrame::new(size))?;
            while !stop.load(Ordering::Relaxed) {
                backend.launch_and_wait()?;
            }
            Ok(())
        };
        Self::start(move |stop| {
            if let Err(e) = work(stop) {
                log::error!("--contend: the competing load has ended: {e}");
            }
        })
    }

    fn start(work: impl FnOnce(&AtomicBool) + Send + 'static) -> io::Result<Self> {
        let stop = Arc::<AtomicBool>::default();
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("competitor".into())
            .spawn(move || work(&told))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Competitor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Who has panicked has said so.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_when_it_is_dropped() {
        let competitor = Competitor::on_cpu().unwrap();
        let stop = Arc::clone(&competitor.stop);
        drop(competitor);
        assert!(stop.load(Ordering::Relaxed));
        // Nobody else holds it any more: the thread is gone.
        assert_eq!(Arc::strong_count(&stop), 1);
    }
}
