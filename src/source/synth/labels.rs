//! The classes of the synthetic street's labels, and what each is to a stixel.
use crate::frame::Class;

/// What a pixel shows; the number is the value in the label pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Label {
    /// Unlabelled: never judged. The street has none; folders made by others may.
    #[default]
    Void = 0,
    /// The carriageway.
    Road = 1,
    /// Paint on the carriageway.
    Marking = 2,
    /// Pavement and kerb, a little above the road.
    Pavement = 3,
    /// Grass and soil beside the pavement.
    Terrain = 4,
    /// Houses.
    Building = 5,
    /// Garden walls and fences.
    Wall = 6,
    /// Trees and hedges.
    Vegetation = 7,
    /// Poles, lamps, signs, bollards and bins.
    Pole = 8,
    /// Cars, vans and lorries.
    Vehicle = 9,
    /// People on foot.
    Pedestrian = 10,
    /// Sky and clouds.
    Sky = 11,
}

impl Label {
    /// All labels in the order of their numbers.
    pub const ALL: [Label; 12] = [
        Label::Void,
        Label::Road,
        Label::Marking,
        Label::Pavement,
        Label::Terrain,
        Label::Building,
        Label::Wall,
        Label::Vegetation,
        Label::Pole,
        Label::Vehicle,
        Label::Pedestrian,
        Label::Sky,
    ];

    /// The label of a number in a label picture.
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.get(usize::from(id)).copied()
    }

    /// The number in label pictures.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The name in tables, lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Label::Void => "void",
            Label::Road => "road",
            Label::Marking => "marking",
            Label::Pavement => "pavement",
            Label::Terrain => "terrain",
            Label::Building => "building",
            Label::Wall => "wall",
            Label::Vegetation => "vegetation",
            Label::Pole => "pole",
            Label::Vehicle => "vehicle",
            Label::Pedestrian => "pedestrian",
            Label::Sky => "sky",
        }
    }

    /// The colour in pictures for people.
    pub const fn colour(self) -> [u8; 3] {
        match self {
            Label::Void => [0, 0, 0],
            Label::Road => [112, 80, 128],
            Label::Marking => [230, 230, 230],
            Label::Pavement => [220, 120, 200],
            Label::Terrain => [150, 220, 130],
            Label::Building => [90, 90, 90],
            Label::Wall => [150, 130, 110],
            Label::Vegetation => [60, 140, 50],
            Label::Pole => [230, 180, 40],
            Label::Vehicle => [30, 60, 190],
            Label::Pedestrian => [220, 30, 60],
            Label::Sky => [110, 170, 220],
        }
    }

    /// What a stixel there should be; `None` where nothing is to be judged.
    pub const fn stixel_class(self) -> Option<Class> {
        match self {
            Label::Void => None,
            Label::Road | Label::Marking | Label::Pavement | Label::Terrain => Some(Class::Ground),
            Label::Building
            | Label::Wall
            | Label::Vegetation
            | Label::Pole
            | Label::Vehicle
            | Label::Pedestrian => Some(Class::Object),
            Label::Sky => Some(Class::Sky),
        }
    }
}

/// `classes.csv`: id, name, colour and stixel class (`void` where none) of each label.
pub fn classes_csv() -> String {
    let mut text = String::from("id,name,r,g,b,stixel_class\n");
    for label in Label::ALL {
        let [r, g, b] = label.colour();
        let class = label.stixel_class().map_or("void", Class::name);
        text += &format!("{},{},{r},{g},{b},{class}\n", label.id(), label.name());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_labels_agree() {
        for (i, label) in Label::ALL.into_iter().enumerate() {
            assert_eq!(Label::from_id(i as u8), Some(label));
            assert_eq!(usize::from(label.id()), i);
        }
        assert_eq!(Label::from_id(12), None);
    }
}
