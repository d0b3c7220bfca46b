package containerd

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/platforms"
	godigest "github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// namespace is the containerd namespace of CRI's images.
const namespace = "k8s.io"

// ImportImage imports an OCI or docker archive, plain or gzipped, unpacks it and returns the image
// names once CRI lists them.
func (c *Child) ImportImage(ctx context.Context, path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("image archive: %w", err)
	}
	defer f.Close()
	names, err := c.Import(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("image archive %s: %w", path, err)
	}
	return names, nil
}

// Import is ImportImage from a reader.
func (c *Child) Import(ctx context.Context, archive io.Reader) ([]string, error) {
	return importArchive(ctx, c.cfg, c.snapshotter, archive)
}

// ImportFile imports an archive into the containerd of cfg, which another process runs.
func ImportFile(ctx context.Context, cfg Config, path string) ([]string, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if proc := cfg.running(); proc != nil {
		proc.release()
	} else {
		return nil, fmt.Errorf("no containerd runs for data directory %s; start it with gantry up", cfg.DataDir)
	}
	snapshotter, err := cfg.chooseSnapshotter()
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("image archive: %w", err)
	}
	defer f.Close()
	return importArchive(ctx, cfg, snapshotter, f)
}

func importArchive(ctx context.Context, cfg Config, snapshotter string, archive io.Reader) ([]string, error) {
	cl, err := client.New(cfg.socket(), client.WithDefaultNamespace(namespace))
	if err != nil {
		return nil, fmt.Errorf("containerd: %w", err)
	}
	defer cl.Close()
	imported, err := cl.Import(ctx, archive, client.WithAllPlatforms(true), client.WithSkipMissing())
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	if len(imported) == 0 {
		return nil, fmt.Errorf("the archive names no image: tag it when it is saved")
	}
	var names []string
	for _, img := range imported {
		if err := runsHere(ctx, cl, img); err != nil {
			return nil, errors.Join(err, cl.ImageService().Delete(ctx, img.Name))
		}
		if err := client.NewImage(cl, img).Unpack(ctx, snapshotter); err != nil {
			return nil, fmt.Errorf("unpack %s: %w", img.Name, err)
		}
		names = append(names, img.Name)
	}
	return names, cfg.awaitImages(ctx, names)
}

// runsHere refuses an image that has no part for this machine's platform.
func runsHere(ctx context.Context, cl *client.Client, img images.Image) error {
	has, err := images.Platforms(ctx, cl.ContentStore(), img.Target)
	if err != nil {
		return fmt.Errorf("the platforms of image %s: %w", img.Name, err)
	}
	if slices.ContainsFunc(has, platforms.Default().Match) {
		return nil
	}
	here := platforms.DefaultString()
	var names []string
	for _, p := range has {
		if p.OS == "" || p.Architecture == "" {
			return fmt.Errorf("image %s: its configuration has os %q and architecture %q, want %s: "+
				"set both when the image is built", img.Name, p.OS, p.Architecture, here)
		}
		names = append(names, platforms.Format(p))
	}
	return fmt.Errorf("image %s is built for %s, want %s, which this machine runs: "+
		"save it again with --platform=%[3]s", img.Name, strings.Join(names, ", "), here)
}

// awaitImages waits until CRI, which learns of images from events, lists them.
func (c Config) awaitImages(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	cri := runtimeapi.NewImageServiceClient(conn)
	for _, name := range names {
		for {
			r, err := cri.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
			if err == nil && r.Image != nil {
				break
			}
			if isUnavailable(err) {
				return fmt.Errorf("image %s is imported; whether CRI lists it: %w", name, err)
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("image %s is imported but CRI does not list it: %w", name, ctx.Err())
			case <-time.After(2 * time.Millisecond):
			}
		}
	}
	return nil
}

// ensurePause imports the pause image unless CRI has it.
func (c *Child) ensurePause(ctx context.Context) error {
	conn, err := c.cfg.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	r, err := runtimeapi.NewImageServiceClient(conn).ImageStatus(ctx,
		&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: PauseImage}})
	if err == nil && r.Image != nil {
		return nil
	}
	program, err := os.ReadFile(filepath.Join(c.cfg.BinDir, "pause"))
	if err != nil {
		return fmt.Errorf("the pause image: %w", err)
	}
	archive, err := pauseArchive(program)
	if err != nil {
		return fmt.Errorf("the pause image: %w", err)
	}
	if _, err := c.Import(ctx, bytes.NewReader(archive)); err != nil {
		return fmt.Errorf("the pause image: %w", err)
	}
	return nil
}

// pauseArchive packs one static program as a docker archive. It is deterministic.
func pauseArchive(program []byte) ([]byte, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := addFile(w, "pause", program, 0o755); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(layer.Bytes())
	digest := hex.EncodeToString(sum[:])
	image := ocispec.Image{Platform: ocispec.Platform{Architecture: runtime.GOARCH, OS: "linux"}}
	image.Config = ocispec.ImageConfig{Entrypoint: []string{"/pause"}, User: "65535:65535"}
	image.RootFS.Type = "layers"
	image.RootFS.DiffIDs = append(image.RootFS.DiffIDs, godigest.Digest("sha256:"+digest))
	config, err := json.Marshal(image)
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{PauseImage},
		"Layers": []string{digest + ".tar"}}})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w = tar.NewWriter(&out)
	for _, f := range []struct {
		name string
		body []byte
	}{{digest + ".tar", layer.Bytes()}, {"config.json", config}, {"manifest.json", manifest}} {
		if err := addFile(w, f.name, f.body, 0o644); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}

func addFile(w *tar.Writer, name string, body []byte, mode int64) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(body)),
		Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err := w.Write(body)
	return err
}
