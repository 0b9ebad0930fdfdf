//! The schemas of a recording, as `ros2msg` texts with all that they depend on.

/// Between a message's text and those of the messages in it.
macro_rules! dependency {
    ($name:literal, $text:expr) => {
        concat!(
            "================================================================================\n",
            "MSG: ",
            $name,
            "\n",
            $text
        )
    };
}

macro_rules! time {
    () => {
        "int32 sec\nuint32 nanosec\n"
    };
}

macro_rules! header {
    () => {
        concat!(
            dependency!(
                "std_msgs/Header",
                "builtin_interfaces/Time stamp\nstring frame_id\n"
            ),
            dependency!("builtin_interfaces/Time", time!())
        )
    };
}

/// A schema: its name and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// As `sensor_msgs/msg/Image`.
    pub name: &'static str,
    /// The `ros2msg` text.
    pub text: &'static str,
    /// Its number in files of ours.
    pub number: u16,
}

/// Pictures.
pub const IMAGE: Schema = Schema {
    name: "sensor_msgs/msg/Image",
    number: 1,
    text: concat!(
        "std_msgs/Header header\nuint32 height\nuint32 width\nstring encoding\nuint8 is_bigendian\n",
        "uint32 step\nuint8[] data\n",
        header!()
    ),
};

/// Pictures as files.
pub const COMPRESSED_IMAGE: Schema = Schema {
    name: "sensor_msgs/msg/CompressedImage",
    number: 2,
    text: concat!(
        "std_msgs/Header header\nstring format\nuint8[] data\n",
        header!()
    ),
};

/// The camera of pictures.
pub const CAMERA_INFO: Schema = Schema {
    name: "sensor_msgs/msg/CameraInfo",
    number: 3,
    text: concat!(
        "std_msgs/Header header\nuint32 height\nuint32 width\nstring distortion_model\nfloat64[] d\n",
        "float64[9] k\nfloat64[9] r\nfloat64[12] p\nuint32 binning_x\nuint32 binning_y\n",
        "sensor_msgs/RegionOfInterest roi\n",
        dependency!(
            "sensor_msgs/RegionOfInterest",
            "uint32 x_offset\nuint32 y_offset\nuint32 height\nuint32 width\nbool do_rectify\n"
        ),
        header!()
    ),
};

/// A result of the loop.
pub const FRAME: Schema = Schema {
    name: "roadloop_msgs/msg/Frame",
    number: 4,
    text: concat!(
        "# The result of one frame, written after its pictures.\n",
        "std_msgs/Header header\n",
        "# Nanoseconds, in full.\n",
        "uint64 timestamp_ns\n",
        "# Place in the drive, from 0, missing frames counted; and the number that names files.\n",
        "uint64 index\nuint64 number\n",
        "# Frames before this one that the recording had no time for.\n",
        "uint64 recording_dropped\n",
        "# What of the set came in. mono_gap says why the mono picture is not used, stereo_gap why\n",
        "# the stereo pictures are not; such pictures are not recorded. Empty where they are used.\n",
        "bool has_speed\nfloat32 speed_mps\nbool has_mono\nuint64 mono_timestamp_ns\nstring mono_gap\n",
        "string stereo_gap\n",
        "# What is missing or degraded, by name.\n",
        "string[] gaps\n",
        "# From the stereo camera. Stixels column by column from the left, each from top to bottom.\n",
        "bool has_street\nroadloop_msgs/Road road\nuint32 stixel_width\nuint32 columns\n",
        "uint32 cut_columns\nroadloop_msgs/Stixel[] stixels\n",
        "# From the mono camera, or the left one.\n",
        "bool has_motion\nroadloop_msgs/Motion motion\n",
        "bool has_foreground\nstring foreground_state\nuint32 foreground_pixels\n",
        "bool has_logos\nroadloop_msgs/Logo[] logos\n",
        "# When it was computed, on the loop's clock.\n",
        "uint64 start_ns\nuint64 duration_ns\nstring outcome\nroadloop_msgs/StageTiming[] stages\n",
        dependency!(
            "roadloop_msgs/Road",
            concat!(
                "# Ground disparity (px) at an image row: slope * row + offset.\n",
                "float32 slope\nfloat32 offset\nfloat32 horizon_row\nfloat32 pitch_rad\n",
                "float32 camera_height_m\nfloat32 confidence\n",
                "# fixed, measured, held or assumed\nstring origin\n"
            )
        ),
        dependency!(
            "roadloop_msgs/Stixel",
            concat!(
                "uint16 column\n# 0 ground, 1 object, 2 sky\nuint8 class_id\n",
                "# Image rows, inclusive.\nuint16 top\nuint16 base\n",
                "# 1/256 px; 65535: none\nuint16 disparity\nuint8 confidence\n"
            )
        ),
        dependency!(
            "roadloop_msgs/Motion",
            concat!(
                "# unknown, still, small_motion or driving\nstring state\n",
                "# Where a pixel lay in the frame before, row-major.\nfloat32[9] homography\n",
                "uint16 tracked\nuint16 inliers\n"
            )
        ),
        dependency!(
            "roadloop_msgs/Logo",
            concat!(
                "uint32 id\nuint16 template_index\nstring name\n",
                "# tentative, tracked or lost\nstring state\n",
                "# x and y of the corners: top left, top right, bottom right, bottom left.\n",
                "float32[8] quad\nfloat32[2] velocity\nuint8 confidence\n"
            )
        ),
        dependency!(
            "roadloop_msgs/StageTiming",
            concat!(
                "string stage\nuint64 start_ns\nuint64 duration_ns\n",
                "# done, over_budget, late or skipped\nstring outcome\n"
            )
        ),
        header!()
    ),
};

/// A frame without a result.
pub const GAP: Schema = Schema {
    name: "roadloop_msgs/msg/Gap",
    number: 5,
    text: concat!(
        "# A frame that should be there and has no result.\n",
        "std_msgs/Header header\nuint64 timestamp_ns\nuint64 index\nuint64 number\n",
        "# dropped, unsynchronised, camera_lost, missing, ...\n",
        "string gap\n",
        header!()
    ),
};

/// What the stages had learnt when a file began.
pub const STATE: Schema = Schema {
    name: "roadloop_msgs/msg/State",
    number: 6,
    text: concat!(
        "# What the stages had learnt before the frame of this index: the file can be replayed\n",
        "# from there alone. The bytes are roadloop's own.\n",
        "std_msgs/Header header\nuint64 index\nuint8[] data\n",
        header!()
    ),
};
