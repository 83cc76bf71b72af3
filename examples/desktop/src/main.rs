//! A desktop program that draws with a wgpu device of its own, and streams through rig.
//!
//! A flag waves in a window. Its corners and its colours are computed anew for each frame, go into
//! new buffers, and are drawn from there; the buffers of some earlier frames are drawn too, as a
//! trail. Nothing is freed and no buffer is kept for reuse by hand. A plot shows what the memory
//! does meanwhile.
//!
//! `cargo run -p rig-desktop` opens the window. With `--frames N` it closes by itself after N
//! frames, and with `--picture FILE` it writes the last one to a PNG, and fails if it is blank.

mod flag;
mod panel;
mod picture;
mod screen;

use crate::flag::Flag;
use crate::panel::Panel;
use crate::picture::Picture;
use crate::screen::Screen;
use rig::wgpu::encode;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use winit::application::ApplicationHandler;
use winit::event::WindowEvent;
use winit::event_loop::{ActiveEventLoop, ControlFlow, EventLoop};
use winit::window::WindowId;

/// What goes wrong ends the program.
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("desktop: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome<()> {
    let asked = Asked::of(std::env::args().skip(1))?;
    let events = EventLoop::new()?;
    events.set_control_flow(ControlFlow::Poll);
    let mut program = Program { asked, running: None, outcome: Ok(()) };
    events.run_app(&mut program)?;
    program.outcome
}

/// What the command line asks for.
#[derive(Default)]
struct Asked {
    /// The number of frames after which the program ends; none lets it run on.
    frames: Option<u64>,
    /// Where the picture of the last frame goes.
    picture: Option<PathBuf>,
}

impl Asked {
    fn of(mut words: impl Iterator<Item = String>) -> Outcome<Self> {
        let mut asked = Self::default();
        while let Some(word) = words.next() {
            match (word.as_str(), words.next()) {
                ("--frames", Some(count)) => asked.frames = Some(count.parse()?),
                ("--picture", Some(path)) => asked.picture = Some(path.into()),
                _ => return Err(USAGE.into()),
            }
        }
        match (&asked.frames, &asked.picture) {
            (Some(0), _) | (None, Some(_)) => Err(USAGE.into()),
            _ => Ok(asked),
        }
    }
}

/// The program, before and after its window opened.
struct Program {
    asked: Asked,
    running: Option<Running>,
    outcome: Outcome<()>,
}

impl ApplicationHandler for Program {
    fn resumed(&mut self, events: &ActiveEventLoop) {
        if self.running.is_none() {
            match Screen::open(events).and_then(Running::new) {
                Ok(running) => self.running = Some(running),
                Err(error) => self.note(events, Err(error)),
            }
        }
    }

    fn window_event(&mut self, events: &ActiveEventLoop, _: WindowId, event: WindowEvent) {
        let Some(running) = &mut self.running else { return };
        running.panel.hear(&running.screen.window, &event);
        match event {
            WindowEvent::CloseRequested => events.exit(),
            WindowEvent::Resized(size) => running.screen.resize(size),
            WindowEvent::RedrawRequested => {
                let shown = running.show(&self.asked);
                running.screen.window.request_redraw();
                if self.asked.frames == Some(running.frames) {
                    events.exit();
                }
                self.note(events, shown);
            }
            _ => {}
        }
    }
}

impl Program {
    /// Ends the program if something went wrong.
    fn note(&mut self, events: &ActiveEventLoop, result: Outcome<()>) {
        if result.is_err() {
            self.outcome = result;
            events.exit();
        }
    }
}

/// The program with its window open.
struct Running {
    screen: Screen,
    flag: Flag,
    panel: Panel,
    /// The frames shown so far.
    frames: u64,
}

impl Running {
    fn new(screen: Screen) -> Outcome<Self> {
        let flag = Flag::new(&screen);
        let panel = Panel::new(&screen);
        Ok(Self { screen, flag, panel, frames: 0 })
    }

    /// Shows a frame: new buffers, one submission, and nothing to clean up.
    fn show(&mut self, asked: &Asked) -> Outcome<()> {
        let Some(surface) = self.screen.next()? else { return Ok(()) };
        let gpu = &self.screen.gpu;
        let colours = self.flag.stream(gpu, self.frames)?;
        let (flag, panel) = (self.flag.brush(), self.panel.lay_out(&self.screen));
        let (texture, plot) = (surface.texture.clone(), panel.plot);
        let view = texture.create_view(&Default::default());
        let is_last = asked.frames == Some(self.frames + 1);
        let path = asked.picture.as_ref().filter(|_| is_last);
        let picture = path.map(|_| Picture::new(gpu, &texture)).transpose()?;
        let rows = picture.as_ref().map(Picture::rows);

        // The encoding is the program's own. Its buffers come in the order in which they are named.
        let mut frame = gpu.prepare().label("frame").native(encode(move |encoder, buffers| {
            let (colours, others) = buffers.split_at(1);
            let (trail, picture) = others.split_at(others.len() - usize::from(rows.is_some()));
            flag.upload(encoder, &colours[0]);
            flag.draw(encoder, &view, trail);
            panel.draw(encoder, &view);
            if let (Some(rows), [picture]) = (rows, picture) {
                rows.copy(encoder, &texture, picture);
            }
        }));
        frame = self.flag.trail().fold(frame.reads(&colours), |frame, part| frame.reads(part));
        if let Some(picture) = &picture {
            frame = frame.writes(&picture.buffer);
        }
        frame.build()?.submit(&[], &[])?; // Does not wait for the GPU.
        self.screen.queue.present(surface);
        self.frames += 1;
        if gpu.held() > gpu.budget() {
            return Err("more is held than the budget".into());
        }
        if let (Some(path), Some(picture)) = (path, picture) {
            picture.write(path, plot)?;
            println!("{} frames were shown: {}", self.frames, gpu.stats());
        }
        Ok(())
    }
}

const USAGE: &str = "usage: rig-desktop [--frames N [--picture FILE]], with N above 0";
