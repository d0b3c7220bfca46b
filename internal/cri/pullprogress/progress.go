package pullprogress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	content "github.com/containerd/containerd/api/services/content/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// containerd's labels of fetched content: its source and, on manifests, the referenced content.
const (
	sourceLabel = "containerd.io/distribution.source."
	configLabel = "containerd.io/gc.ref.content.config"
	layerLabel  = "containerd.io/gc.ref.content.l."
)

// maxManifest bounds a manifest, in bytes; registries refuse those above 4 MiB.
const maxManifest = 4 << 20

// sourceOf returns the registry's host, as in the labels, and the repository of a full image name.
func sourceOf(image string) (host, repository string) {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		image = image[:i]
	}
	first, rest, found := strings.Cut(image, "/")
	switch {
	case !found:
		return "docker.io", "library/" + image
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		return "docker.io", image
	case first == "docker.io" && !strings.Contains(rest, "/"):
		rest = "library/" + rest
	}
	u := url.URL{Host: first}
	return u.Hostname(), rest
}

// measure adds up the layers of the one manifest of the image's repository that is being fetched.
func (s *Store) measure(ctx context.Context, image string) (done, total int64, err error) {
	r, err := s.api.ListStatuses(ctx, &content.ListStatusesRequest{})
	if err != nil {
		return 0, 0, err
	}
	fetched := map[string]int64{} // by digest
	for _, st := range r.Statuses {
		_, algorithm, _ := strings.Cut(st.Ref, "-") // layer-sha256:…
		fetched[algorithm] = st.Offset
	}
	if len(fetched) == 0 {
		return 0, 0, nil
	}
	manifest, err := s.manifest(ctx, image, fetched)
	if err != nil || manifest == nil {
		return 0, 0, err
	}
	m, err := s.read(ctx, manifest)
	if err != nil {
		return 0, 0, err
	}
	for _, d := range append(m.Layers, m.Config) {
		total += d.Size
		if at, under := fetched[d.Digest]; under {
			done += at
		} else if there, err := s.has(ctx, d.Digest); err != nil {
			return 0, 0, err
		} else if there {
			done += d.Size
		}
	}
	return done, total, nil
}

// manifest returns the manifest of the image's repository with layers being fetched; nil if there
// is none, or more than one.
func (s *Store) manifest(ctx context.Context, image string, under map[string]int64) (*content.Info, error) {
	host, repository := sourceOf(image)
	stream, err := s.api.List(ctx,
		&content.ListContentRequest{Filters: []string{fmt.Sprintf("labels.%q", sourceLabel+host)}})
	if err != nil {
		return nil, err
	}
	var found []*content.Info
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		for _, info := range r.Info {
			if slices.Contains(strings.Split(info.Labels[sourceLabel+host], ","), repository) && refersTo(info, under) {
				found = append(found, info)
			}
		}
	}
	if len(found) != 1 {
		return nil, nil
	}
	return found[0], nil
}

func refersTo(info *content.Info, under map[string]int64) bool {
	if info.Labels[configLabel] == "" || info.Size > maxManifest {
		return false
	}
	for k, digest := range info.Labels {
		if _, is := under[digest]; is && (k == configLabel || strings.HasPrefix(k, layerLabel)) {
			return true
		}
	}
	return false
}

// manifest is the part of an image manifest with sizes; Docker's and OCI's agree in it.
type manifest struct {
	Config descriptor   `json:"config"`
	Layers []descriptor `json:"layers"`
}

type descriptor struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"` // bytes, compressed
}

func (s *Store) read(ctx context.Context, info *content.Info) (manifest, error) {
	var m manifest
	stream, err := s.api.Read(ctx, &content.ReadContentRequest{Digest: info.Digest, Size: info.Size})
	if err != nil {
		return m, err
	}
	var text bytes.Buffer
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return m, err
		}
		text.Write(r.Data)
	}
	if err := json.Unmarshal(text.Bytes(), &m); err != nil {
		return m, fmt.Errorf("manifest %s: %w", info.Digest, err)
	}
	return m, nil
}

func (s *Store) has(ctx context.Context, digest string) (bool, error) {
	_, err := s.api.Info(ctx, &content.InfoRequest{Digest: digest})
	if status.Code(err) == codes.NotFound {
		return false, nil
	}
	return err == nil, err
}
