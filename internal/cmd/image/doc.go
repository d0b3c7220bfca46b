// Package image is `gantry image`: image archives imported into the containerd of an instance.
package image
