//! What is searched when a graph is searched: all its text in lower case and in one piece, which
//! is read ten times as fast as a million texts here and there, and for every few things a small
//! table that tells which texts they cannot have.
//!
//! It belongs to one state of a graph and follows its changes. Not here: when it is made.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;

use memchr::memmem;

use super::{Entity, Graph, GraphEdit, GraphSelection, Relation};

/// Stands after every name, type and observation. No text has this byte, so none is found that
/// begins in one of them and ends in the next.
const END: u8 = 0xff;

/// How many things share a table. Their text has some ten thousand letters.
const BLOCK: usize = 16;

/// How many bits a table has: a block of prose sets about half of them.
const BITS: usize = 4096;

/// Every three letters that follow each other in a block set a bit. A text of which one bit is not
/// set is not there.
type Table = [u64; BITS / 64];

/// The text of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Index {
    /// The text of all things, in their order.
    text: Vec<u8>,
    /// Where the text of each ends.
    ends: Vec<usize>,
    /// A table for each block of things.
    tables: Vec<Table>,
    /// How many relations are in `mentions`.
    relations: usize,
    /// A number that stands for each of the two names of a relation, with the place of the
    /// relation, in order. Different names may have the same number.
    mentions: Vec<(u64, usize)>,
}

/// What an edit is about to touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Where in the graph the things are whose text changes.
    places: BTreeSet<usize>,
    fate: Fate,
}

/// What becomes of things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stay,
    Go,
}

impl Touched {
    /// Returns what an edit of a graph is about to touch.
    pub fn by(edit: &GraphEdit, graph: &Graph) -> Self {
        let (names, fate): (BTreeSet<&str>, _) = match edit {
            GraphEdit::AddObservations(asked) | GraphEdit::DeleteObservations(asked) => {
                (asked.iter().map(|it| it.entity_name.as_str()).collect(), Fate::Stay)
            }
            GraphEdit::DeleteEntities(names) => {
                (names.iter().map(String::as_str).collect(), Fate::Go)
            }
            // What is new is seen by its being there.
            GraphEdit::CreateEntities(_)
            | GraphEdit::CreateRelations(_)
            | GraphEdit::DeleteRelations(_) => (BTreeSet::new(), Fate::Stay),
        };
        let is_meant = |entity: &Entity| !names.is_empty() && names.contains(entity.name.as_str());
        let places = (0..).zip(&graph.entities).filter(|(_, entity)| is_meant(entity));
        Self { places: places.map(|(place, _)| place).collect(), fate }
    }
}

impl Index {
    /// Makes the index of a graph.
    pub fn of(graph: &Graph) -> Self {
        let mut index = Self::default();
        // All at once: a buffer that grows is copied again and again.
        index.text.reserve(graph.entities.iter().map(length).sum());
        index.take_new(graph);
        index
    }

    /// Follows an edit; the graph is the one after it.
    pub fn follow(&mut self, touched: &Touched, graph: &Graph) {
        if !touched.places.is_empty() {
            self.rewrite(touched, graph);
        }
        if self.relations > graph.relations.len() {
            self.relations = 0;
            self.mentions.clear();
        }
        self.take_new(graph);
    }

    /// Returns the things that have all of these texts in their name, type or observations,
    /// whatever the case of their letters. The graph is the one that the index is of.
    pub fn search<'a>(&self, graph: &'a Graph, texts: &[impl AsRef<str>]) -> GraphSelection<'a> {
        let needles: Vec<String> = texts.iter().map(|text| text.as_ref().to_lowercase()).collect();
        let finders: Vec<_> = needles.iter().map(memmem::Finder::new).collect();
        let Some((first, others)) = finders.split_first() else { return graph.select_all() };
        let bits: Vec<usize> = needles.iter().flat_map(|it| bits(it.as_bytes())).collect();
        let mut entities = Vec::new();
        for block in (0..self.tables.len()).filter(|&it| has_all(&self.tables[it], &bits)) {
            let Range { start: mut from, end } = self.block(block);
            while from < end
                && let Some(at) = first.find(&self.text[from..end])
            {
                let place = self.ends.partition_point(|end| *end <= from + at);
                let text = &self.text[self.begin(place)..self.ends[place]];
                if others.iter().all(|other| other.find(text).is_some()) {
                    entities.push(&graph.entities[place]);
                }
                from = self.ends[place];
            }
        }
        let relations = self.relations_of(graph, &entities);
        GraphSelection { entities, relations }
    }

    /// Returns the relations that begin or end at one of these things.
    fn relations_of<'a>(&self, graph: &'a Graph, entities: &[&Entity]) -> Vec<&'a Relation> {
        let names: BTreeSet<&str> = entities.iter().map(|entity| entity.name.as_str()).collect();
        let places: BTreeSet<usize> = names
            .iter()
            .flat_map(|name| {
                let number = number(name);
                let begin = self.mentions.partition_point(|mention| mention.0 < number);
                self.mentions[begin..].iter().take_while(move |mention| mention.0 == number)
            })
            .map(|mention| mention.1)
            .collect();
        let is_meant =
            |it: &&Relation| [&it.from, &it.to].iter().any(|it| names.contains(it.as_str()));
        places.into_iter().filter_map(|place| graph.relations.get(place)).filter(is_meant).collect()
    }

    /// Takes in what a graph has beyond what it had.
    fn take_new(&mut self, graph: &Graph) {
        for entity in &graph.entities[self.ends.len()..] {
            self.push(entity);
        }
        // The last block may have been half full before.
        let known = self.tables.len().saturating_sub(1);
        self.tables.truncate(known);
        let blocks = self.ends.len().div_ceil(BLOCK);
        let new: Vec<Table> = (known..blocks).map(|it| table(&self.text[self.block(it)])).collect();
        self.tables.extend(new);
        let count = graph.relations.len();
        if self.relations < count {
            let new = (self.relations..count).zip(&graph.relations[self.relations..]);
            let names = new.flat_map(|(place, it)| [(&it.from, place), (&it.to, place)]);
            self.mentions.extend(names.map(|(name, place)| (number(name), place)));
            #[expect(
                clippy::stable_sort_primitive,
                reason = "this one takes a few at the end of many that are in order as two runs"
            )]
            self.mentions.sort();
            self.relations = count;
        }
    }

    fn push(&mut self, entity: &Entity) {
        for text in texts(entity) {
            let begin = self.text.len();
            if text.is_ascii() {
                self.text.extend_from_slice(text.as_bytes());
                self.text[begin..].make_ascii_lowercase();
            } else {
                self.text.extend_from_slice(text.to_lowercase().as_bytes());
            }
            self.text.push(END);
        }
        self.ends.push(self.text.len());
    }

    /// Copies what stays as it is and takes in the rest anew, in one pass however much it is.
    fn rewrite(&mut self, touched: &Touched, graph: &Graph) {
        let count = self.ends.len();
        let mut new = Self {
            text: Vec::with_capacity(self.text.len()),
            ends: Vec::with_capacity(count),
            tables: std::mem::take(&mut self.tables),
            relations: self.relations,
            mentions: std::mem::take(&mut self.mentions),
        };
        for place in 0..count {
            match (touched.places.contains(&place), touched.fate) {
                (true, Fate::Go) => {}
                (true, Fate::Stay) => new.push(&graph.entities[place]),
                (false, Fate::Stay | Fate::Go) => {
                    new.text.extend_from_slice(&self.text[self.begin(place)..self.ends[place]]);
                    new.ends.push(new.text.len());
                }
            }
        }
        new.tables.truncate(new.ends.len().div_ceil(BLOCK));
        // Where a thing has gone, all behind it have moved up.
        let blocks: BTreeSet<usize> = touched.places.iter().map(|place| place / BLOCK).collect();
        let blocks: BTreeSet<usize> = match (touched.fate, blocks.first()) {
            (Fate::Go, Some(&first)) => (first..new.tables.len()).collect(),
            (Fate::Go | Fate::Stay, _) => blocks,
        };
        for block in blocks {
            new.tables[block] = table(&new.text[new.block(block)]);
        }
        *self = new;
    }

    /// Returns where the text of a block is.
    fn block(&self, block: usize) -> Range<usize> {
        let beyond = self.ends.len().min((block + 1) * BLOCK);
        self.begin(block * BLOCK)..self.begin(beyond)
    }

    fn begin(&self, place: usize) -> usize {
        place.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}

/// Returns the bits that a text sets.
fn bits(text: &[u8]) -> impl Iterator<Item = usize> {
    text.windows(3).map(|three| {
        let number = u32::from_le_bytes([three[0], three[1], three[2], 0]);
        // By the golden ratio, so that letters, which are alike, are spread over all bits.
        number.wrapping_mul(0x9e37_79b1) as usize >> (u32::BITS - BITS.ilog2())
    })
}

fn table(text: &[u8]) -> Table {
    let mut table = [0; BITS / 64];
    for bit in bits(text) {
        table[bit / 64] |= 1 << (bit % 64);
    }
    table
}

fn has_all(table: &Table, bits: &[usize]) -> bool {
    bits.iter().all(|bit| table[bit / 64] >> (bit % 64) & 1 == 1)
}

fn texts(entity: &Entity) -> impl Iterator<Item = &str> {
    let first = [entity.name.as_str(), entity.entity_type.as_str()];
    first.into_iter().chain(entity.observations.iter().map(String::as_str))
}

/// Returns how long the text of a thing is, but for the odd letter that is longer in lower case.
fn length(entity: &Entity) -> usize {
    texts(entity).map(|text| text.len() + 1).sum()
}

/// Returns the number that stands for a name.
fn number(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}
