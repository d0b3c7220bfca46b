package crifake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sort"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Image is an image on the node or in the registry.
type Image struct {
	Names  []string // with tag; the first is shown
	ID     string   // sha256:…; derived from the first name when empty
	Size   uint64   // 1 MiB when 0
	Pinned bool
	UID    int64         // user the image runs as
	User   string        // user name instead of UID
	Pull   time.Duration // how long pulling takes
	Error  string        // pulling fails with this text
	Auth   string        // "user:password" pulling asks for
	Script Script        // what a container without command does
}

func (i *Image) named(name string) bool {
	for _, n := range i.Names {
		if n == name || n == withTag(name) {
			return true
		}
	}
	return i.ID == name || strings.HasPrefix(i.ID, "sha256:"+name) && len(name) >= 12
}

func splitTag(name string) (repo, tag string) {
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		return name[:i], name[i+1:]
	}
	return name, ""
}

// withTag writes a name the way the runtime keeps it: docker.io's short names are spelled out and
// latest is added.
func withTag(name string) string {
	if strings.HasPrefix(name, "sha256:") || strings.Contains(name, "@") {
		return name
	}
	if first, _, found := strings.Cut(name, "/"); !found {
		name = "docker.io/library/" + name
	} else if !strings.ContainsAny(first, ".:") && first != "localhost" {
		name = "docker.io/" + name
	}
	if _, tag := splitTag(name); tag == "" {
		name += ":latest"
	}
	return name
}

// AddImage puts an image on the node.
func (f *Fake) AddImage(i Image) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addImage(i)
}

// addImage gives a name that another image has to the new one, as pulling a moved tag does. Callers
// hold f.mu.
func (f *Fake) addImage(i Image) *Image {
	names := make([]string, len(i.Names))
	for n, name := range i.Names {
		names[n] = withTag(name)
	}
	i.Names = names
	if i.ID == "" {
		sum := sha256.Sum256([]byte(strings.Join(names, ",")))
		i.ID = "sha256:" + hex.EncodeToString(sum[:])
	}
	if i.Size == 0 {
		i.Size = 1 << 20
	}
	for id, old := range f.images {
		if id == i.ID {
			continue
		}
		for _, n := range names {
			old.Names = without(old.Names, n)
		}
	}
	if old := f.images[i.ID]; old != nil {
		for _, n := range old.Names {
			i.Names = append(without(i.Names, n), n)
		}
	}
	f.images[i.ID] = &i
	return &i
}

func without(list []string, s string) []string {
	var out []string
	for _, x := range list {
		if x != s {
			out = append(out, x)
		}
	}
	return out
}

func (f *Fake) findImage(name string) *Image {
	for _, i := range f.images {
		if i.named(name) {
			return i
		}
	}
	return nil
}

func (i *Image) api() *runtimeapi.Image {
	out := &runtimeapi.Image{Id: i.ID, RepoTags: i.Names, Size: i.Size, Username: i.User, Pinned: i.Pinned}
	if i.User == "" {
		out.Uid = &runtimeapi.Int64Value{Value: i.UID}
	}
	return out
}

// ListImages lists images by name.
func (f *Fake) ListImages(_ context.Context, r *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	want := r.GetFilter().GetImage().GetImage()
	out := &runtimeapi.ListImagesResponse{}
	for _, i := range f.images {
		if want == "" || i.named(want) {
			out.Images = append(out.Images, i.api())
		}
	}
	sort.Slice(out.Images, func(a, b int) bool { return out.Images[a].Id < out.Images[b].Id })
	return out, nil
}

// ImageStatus answers without an image for an absent one.
func (f *Fake) ImageStatus(_ context.Context,
	r *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.findImage(r.GetImage().GetImage()); i != nil {
		return &runtimeapi.ImageStatusResponse{Image: i.api()}, nil
	}
	return &runtimeapi.ImageStatusResponse{}, nil
}

// PullImage takes the image from the registry.
func (f *Fake) PullImage(ctx context.Context, r *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	name := withTag(r.GetImage().GetImage())
	if name == ":latest" || r.GetImage().GetImage() == "" {
		return nil, status.Errorf(codes.InvalidArgument, "failed to parse image reference %q: invalid reference format",
			r.GetImage().GetImage())
	}
	found, err := f.inRegistry(name)
	if err != nil {
		return nil, err
	}
	if found.Pull > 0 {
		select {
		case <-time.After(found.Pull):
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	const failed = "failed to pull and unpack image %q: failed to resolve reference %q: "
	if found.Error != "" {
		return nil, status.Errorf(codes.Unknown, failed+"%s", name, name, found.Error)
	}
	if auth := r.GetAuth(); found.Auth != "" && found.Auth != auth.GetUsername()+":"+auth.GetPassword() {
		return nil, status.Errorf(codes.Unknown,
			failed+"pull access denied, repository does not exist or may require authorization: authorization failed: "+
				"no basic auth credentials", name, name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(found.Names) == 0 {
		found.Names = []string{name}
	}
	return &runtimeapi.PullImageResponse{ImageRef: f.addImage(found).ID}, nil
}

func (f *Fake) inRegistry(name string) (Image, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.registry {
		for _, n := range i.Names {
			if withTag(n) == name {
				return i, nil
			}
		}
	}
	if f.registry == nil {
		return Image{}, nil
	}
	return Image{},
		status.Errorf(codes.NotFound,
			"failed to pull and unpack image %q: failed to resolve reference %q: %s: not found", name, name, name)
}

// SetRegistry replaces what can be pulled; nil lets every name be pulled, an empty list none.
func (f *Fake) SetRegistry(images []Image) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.registry = images
}

// RemoveImage removes an image with all its names; an absent one is removed already.
func (f *Fake) RemoveImage(_ context.Context,
	r *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.findImage(r.GetImage().GetImage()); i != nil {
		delete(f.images, i.ID)
	}
	return &runtimeapi.RemoveImageResponse{}, nil
}

// ImageFsInfo returns one file system with images and writable layers.
func (f *Fake) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var bytes uint64
	for _, i := range f.images {
		bytes += i.Size
	}
	u := []*runtimeapi.FilesystemUsage{{
		Timestamp:  time.Now().UnixNano(),
		FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: f.opts.Dir},
		UsedBytes:  &runtimeapi.UInt64Value{Value: bytes},
		InodesUsed: &runtimeapi.UInt64Value{Value: uint64(len(f.images))},
	}}
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: u, ContainerFilesystems: u}, nil
}

func (f *Fake) newID(kind string) string {
	f.serial++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", kind, f.serial))
	return hex.EncodeToString(sum[:])
}
