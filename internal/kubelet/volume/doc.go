// Package volume decides what has to happen to a Pod's volumes: which to set up, refresh and tear
// down, and in what order.
//
// Everything a container finds mounted comes from here; volume/<type> makes one kind of volume,
// volume/furnish carries plans out.
//
// In: a Pod's volumes (desired) and the directories found on disk (actual). Out: an ordered Plan;
// the vocabulary the types share (Plugin, MounterArgs, Mounted, the ports).
//
// To add a type: a directory volume/<type> with a Plugin, one row in the app's list of types, and
// volumetest.Run in its test.
package volume
