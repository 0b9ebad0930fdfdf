//! Graphs: a frame's work, recorded once and launched with one call.
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::context::Context;
use super::error::GpuError;
use super::memory::Allocation;
use super::module::{Arguments, Function, LaunchShape, LoadedModule};
use super::raw::{
    CUDA_KERNEL_NODE_PARAMS, CUfunction, CUgraph, CUgraphExec, CUgraphNode, call, value,
};
use super::stream::{Event, Stream};

/// What a graph uses, and so keeps alive.
#[derive(Default)]
struct Uses {
    blocks: Vec<(Rc<Allocation>, bool)>,
    modules: Vec<Rc<LoadedModule>>,
    events: Vec<Rc<Event>>,
}

impl Uses {
    fn touch(&mut self, block: &Rc<Allocation>, writes: bool) {
        match self.blocks.iter_mut().find(|b| Rc::ptr_eq(&b.0, block)) {
            Some(known) => known.1 |= writes,
            None => self.blocks.push((block.clone(), writes)),
        }
    }
}

/// The capture that is going on in a context.
pub(super) struct CaptureState {
    id: u64,
    blocks: Uses,
    pub modules: Vec<Rc<LoadedModule>>,
    pub events: Vec<Rc<Event>>,
}

impl CaptureState {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            id,
            blocks: Uses::default(),
            modules: Vec::new(),
            events: Vec::new(),
        }
    }

    pub fn touch(&mut self, block: &Rc<Allocation>, writes: bool) {
        self.blocks.touch(block, writes);
    }
}

impl Stream {
    /// Records what `work` gives to this stream (and to streams that wait for its events and
    /// join again) into a graph, instead of running it. The capture is ended whatever happens.
    /// Nothing that waits, and no allocation, may be in it.
    ///
    /// # Errors
    /// What `work` returns; [`GpuError::Capture`] inside another capture; from the driver.
    pub fn capture<E: From<GpuError>>(
        &self,
        work: impl FnOnce(&Stream) -> Result<(), E>,
    ) -> Result<Graph, E> {
        let context = self.context();
        context.bind()?;
        if context.inner().capture.borrow().is_some() {
            return Err(GpuError::Capture("one is going on already").into());
        }
        // SAFETY: a live stream of the current context; ended below or in the guard's Drop.
        context.note(unsafe {
            call::cuStreamBeginCapture_v2(self.raw(), value::STREAM_CAPTURE_MODE_THREAD_LOCAL)
        })?;
        *context.inner().capture.borrow_mut() = Some(CaptureState::new());
        let mut guard = CaptureGuard {
            stream: self,
            open: true,
        };
        let outcome = work(self);
        let ended = guard.end();
        outcome?;
        Ok(ended?)
    }
}

/// Ends a capture also when its work panics.
struct CaptureGuard<'a> {
    stream: &'a Stream,
    open: bool,
}

impl CaptureGuard<'_> {
    fn end(&mut self) -> Result<Graph, GpuError> {
        self.open = false;
        let context = self.stream.context();
        let state = context.inner().capture.take();
        let mut raw = null_mut();
        let ended = context.bind().and_then(|()| {
            // SAFETY: a capture of this stream is open; the graph goes to a local.
            context.note(unsafe { call::cuStreamEndCapture(self.stream.raw(), &raw mut raw) })
        });
        let CaptureState {
            id,
            mut blocks,
            modules,
            events,
        } = state.ok_or(GpuError::Capture("none is going on"))?;
        blocks.modules = modules;
        blocks.events = events;
        // From here on the graph is destroyed with its owner, also where the end reported an error.
        let graph = Graph {
            raw,
            id,
            context: context.clone(),
            uses: blocks,
        };
        ended?;
        if graph.raw.is_null() {
            return Err(GpuError::Capture("it gave no graph"));
        }
        Ok(graph)
    }
}

impl Drop for CaptureGuard<'_> {
    fn drop(&mut self) {
        if self.open {
            let _ = self.end();
        }
    }
}

/// Recorded work. Keeps the buffers, kernels and events that it uses alive.
pub struct Graph {
    raw: CUgraph,
    id: u64,
    context: Context,
    uses: Uses,
}

impl Graph {
    /// How many nodes (kernels, copies, fills, event records) it has.
    ///
    /// # Errors
    /// From the driver.
    pub fn nodes(&self) -> Result<usize, GpuError> {
        self.context.bind()?;
        let mut count = 0;
        // SAFETY: a live graph; without an array only the count is written, to a local.
        self.context
            .note(unsafe { call::cuGraphGetNodes(self.raw, null_mut(), &raw mut count) })?;
        Ok(count)
    }

    /// Makes it launchable. Takes some 25 µs, and its first launch 35: at start.
    ///
    /// # Errors
    /// From the driver.
    pub fn instantiate(self) -> Result<GraphExec, GpuError> {
        self.context.bind()?;
        let mut raw = null_mut();
        // SAFETY: a live graph; the result goes to a local.
        self.context
            .note(unsafe { call::cuGraphInstantiateWithFlags(&raw mut raw, self.raw, 0) })?;
        Ok(GraphExec {
            raw,
            graph: self,
            later: Vec::new(),
        })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the graph is this object's own; what it was instantiated to stands alone.
            let done = self
                .context
                .bind()
                .and_then(|()| unsafe { call::cuGraphDestroy(self.raw) });
            self.context.record(done);
        }
    }
}

/// A graph that can be launched again and again, one launch at a time.
pub struct GraphExec {
    raw: CUgraphExec,
    graph: Graph,
    /// Graphs that it was updated to: what they use is in use.
    later: Vec<Graph>,
}

impl GraphExec {
    /// Sends it to the device ahead of its first launch.
    ///
    /// # Errors
    /// From the driver.
    pub fn upload(&self, stream: &Stream) -> Result<(), GpuError> {
        self.graph.context.same(stream.context(), "stream")?;
        self.graph.context.bind()?;
        // SAFETY: a live graph and stream of the current context.
        self.graph
            .context
            .note(unsafe { call::cuGraphUpload(self.raw, stream.raw()) })
    }

    /// Runs all its work, asynchronously, in the stream's order.
    ///
    /// # Errors
    /// [`GpuError::Busy`] when the host holds a page-locked buffer that it writes (or writes one
    /// that it reads); from the driver.
    pub fn launch(&self, stream: &Stream) -> Result<(), GpuError> {
        self.graph.context.same(stream.context(), "stream")?;
        let work = stream.begin()?;
        if work.is_captured() {
            return Err(GpuError::Capture("a graph can't be launched into another"));
        }
        for graph in self.later.iter().chain([&self.graph]) {
            for (block, writes) in &graph.uses.blocks {
                work.touch(block, *writes)?;
            }
        }
        // SAFETY: a live graph and stream of the current context; everything it uses is alive,
        // and page-locked buffers are noted as in flight.
        self.graph
            .context
            .note(unsafe { call::cuGraphLaunch(self.raw, stream.raw()) })
    }

    /// Changes a kernel's shape and parameters from the next launch on; some 0.3 µs a node.
    /// Allocates nothing unless the parameters name a buffer that the graph did not use so far.
    ///
    /// # Errors
    /// [`GpuError::Capture`] for a node of another graph; [`GpuError::Shape`],
    /// [`GpuError::Dangling`]; from the driver.
    pub fn set_kernel<A: Arguments>(
        &mut self,
        node: &KernelNode<A>,
        function: &Function<A>,
        shape: LaunchShape,
        arguments: &A,
    ) -> Result<(), GpuError> {
        if node.graph != self.graph.id {
            return Err(GpuError::Capture("the node is of another graph"));
        }
        if node.function != function.raw() {
            return Err(GpuError::Capture("the node runs another kernel"));
        }
        function.check_shape(shape)?;
        let Graph { context, uses, .. } = &mut self.graph;
        context.bind()?;
        let mut alive = Ok(());
        arguments.addresses(&mut |address| match context.find(address) {
            Some(block) => uses.touch(&block, true),
            None => {
                alive = Err(GpuError::Dangling {
                    what: node.name,
                    address,
                })
            }
        });
        alive?;
        context.note(arguments.with_pointers(|pointers| {
            let params = CUDA_KERNEL_NODE_PARAMS {
                func: node.function,
                gridDimX: shape.grid[0],
                gridDimY: shape.grid[1],
                gridDimZ: shape.grid[2],
                blockDimX: shape.block[0],
                blockDimY: shape.block[1],
                blockDimZ: shape.block[2],
                sharedMemBytes: shape.shared,
                kernelParams: pointers,
                extra: null_mut(),
            };
            // SAFETY: the node is one of the graph that this was made from, which is alive; the
            // parameters are of the kernel's types and copied before the call returns.
            unsafe { call::cuGraphExecKernelNodeSetParams(self.raw, node.raw, &raw const params) }
        }))
    }

    /// Takes over the parameters of a graph with the same nodes in the same order: for a change
    /// of many at once. Both graphs' buffers count as used from then on.
    ///
    /// # Errors
    /// From the driver when the graphs differ in more than parameters; this one is then not to be
    /// launched again: capture and instantiate a new one.
    pub fn update(&mut self, graph: Graph) -> Result<(), GpuError> {
        self.graph.context.same(&graph.context, "graph")?;
        self.graph.context.bind()?;
        let (mut node, mut outcome) = (null_mut(), 0);
        // SAFETY: live graphs of the current context; the results go to locals.
        self.graph.context.note(unsafe {
            call::cuGraphExecUpdate(self.raw, graph.raw, &raw mut node, &raw mut outcome)
        })?;
        self.later.clear();
        self.later.push(graph);
        Ok(())
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        // SAFETY: the graph is this object's own; a launch in flight ends first by the driver.
        let done = self
            .graph
            .context
            .bind()
            .and_then(|()| unsafe { call::cuGraphExecDestroy(self.raw) });
        self.graph.context.record(done);
    }
}

/// A kernel's place in a graph, with the types of its parameters.
pub struct KernelNode<A> {
    raw: CUgraphNode,
    graph: u64,
    function: CUfunction,
    name: &'static str,
    _module: Rc<LoadedModule>,
    arguments: PhantomData<fn(A)>,
}

impl<A> KernelNode<A> {
    /// The node that a capturing stream got last.
    pub(super) fn last(
        stream: &Stream,
        function: CUfunction,
        name: &'static str,
        module: Rc<LoadedModule>,
    ) -> Result<Self, GpuError> {
        let context = stream.context();
        let (mut status, mut id, mut graph, mut count) = (0, 0, null_mut(), 0);
        let mut dependencies: *const CUgraphNode = std::ptr::null();
        // SAFETY: a live stream of the current context; all results go to locals.
        context.note(unsafe {
            call::cuStreamGetCaptureInfo_v2(
                stream.raw(),
                &raw mut status,
                &raw mut id,
                &raw mut graph,
                &raw mut dependencies,
                &raw mut count,
            )
        })?;
        if status != value::STREAM_CAPTURE_STATUS_ACTIVE || count != 1 || dependencies.is_null() {
            return Err(GpuError::Capture("the stream has no single last node"));
        }
        // SAFETY: the driver gave an array of `count` = 1 nodes, valid until the stream's next use.
        let raw = unsafe { *dependencies };
        let capture = context.inner().capture.borrow();
        let graph = capture
            .as_ref()
            .ok_or(GpuError::Capture("none is going on"))?
            .id;
        Ok(Self {
            raw,
            graph,
            function,
            name,
            _module: module,
            arguments: PhantomData,
        })
    }
}
