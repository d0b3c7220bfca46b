// Package clean is `gantry clean`: it takes everything of an instance away that is not data.
package clean
