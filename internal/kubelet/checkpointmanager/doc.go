// Package checkpointmanager writes and reads checkpoint files, each whole or not at all.
//
// In: a directory, a name and the content. Out: the file, or its content; the formats are those who
// write them.
package checkpointmanager
