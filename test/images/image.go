package images

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is one entry of an image: a directory when Mode has os.ModeDir, a link when Link is set,
// else a file.
type File struct {
	Path string
	Mode os.FileMode
	Body []byte
	Link string
	UID  int
}

// New makes an image of one layer. Equal input gives an equal image.
func New(files []File, config v1.Config) (v1.Image, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		h := &tar.Header{Name: f.Path, Mode: int64(f.Mode.Perm()), Uid: f.UID, Gid: f.UID, ModTime: time.Unix(0, 0),
			Typeflag: tar.TypeReg, Size: int64(len(f.Body))}
		switch {
		case f.Mode&os.ModeDir != 0:
			h.Typeflag, h.Size = tar.TypeDir, 0
		case f.Link != "":
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, f.Link, 0
		}
		for bit, mode := range map[os.FileMode]int64{os.ModeSticky: 0o1000, os.ModeSetgid: 0o2000,
			os.ModeSetuid: 0o4000} {
			if f.Mode&bit != 0 {
				h.Mode |= mode
			}
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("image entry %s: %w", f.Path, err)
		}
		if h.Size > 0 {
			if _, err := w.Write(f.Body); err != nil {
				return nil, fmt.Errorf("image entry %s: %w", f.Path, err)
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		return nil, fmt.Errorf("image layer: %w", err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	return WithConfig(img, config)
}

// WithConfig replaces the image's command, user, environment and so on.
func WithConfig(img v1.Image, config v1.Config) (v1.Image, error) {
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Config, file.OS, file.Architecture = config, "linux", runtime.GOARCH
	return mutate.ConfigFile(img, file)
}

// WithLayer adds files on top of an image.
func WithLayer(img v1.Image, files []File) (v1.Image, error) {
	extra, err := New(files, v1.Config{})
	if err != nil {
		return nil, err
	}
	layers, err := extra.Layers()
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(img, layers...)
}

var cacheLock sync.Mutex

// cacheDir is where made images stay.
func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("image cache: %w", err)
	}
	dir := filepath.Join(base, "gantry", "images")
	return dir, os.MkdirAll(dir, 0o755)
}

// cached returns the image made by build, or its stored copy when the same key was built before.
func cached(name string, key []byte, build func() (v1.Image, error)) (v1.Image, error) {
	cacheLock.Lock()
	defer cacheLock.Unlock()
	dir, err := cacheDir()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(key)
	path := filepath.Join(dir, name+"-"+hex.EncodeToString(sum[:8])+".tar")
	if img, err := tarball.ImageFromPath(path, nil); err == nil {
		return img, nil
	}
	img, err := build()
	if err != nil {
		return nil, err
	}
	tmp, err := os.CreateTemp(dir, name)
	if err != nil {
		return nil, fmt.Errorf("image cache: %w", err)
	}
	defer os.Remove(tmp.Name())
	if err := tarball.Write(anyTag, img, tmp); err != nil {
		return nil, fmt.Errorf("image cache: %w", err)
	}
	if err := tmp.Close(); err != nil {
		return nil, fmt.Errorf("image cache: %w", err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return nil, fmt.Errorf("image cache: %w", err)
	}
	return tarball.ImageFromPath(path, nil)
}
