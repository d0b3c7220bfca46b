package gc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/kubelet/images"
	"github.com/gantry-project/gantry/internal/kubelet/images/gc"
)

// fakeNode is a runtime with images of 10 bytes each on a disk of 100.
type fakeNode struct {
	images     []*runtimeapi.Image
	containers []*runtimeapi.Container
	removed    []string
	events     []string
	taken      int64 // bytes that are no images
	broken     error
}

func (n *fakeNode) ListImages(context.Context, *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	return n.images, n.broken
}

func (n *fakeNode) RemoveImage(_ context.Context, s *runtimeapi.ImageSpec) error {
	n.removed = append(n.removed, s.Image)
	n.images = slices.DeleteFunc(n.images, func(i *runtimeapi.Image) bool { return i.Id == s.Image })
	return nil
}

func (n *fakeNode) ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{
		{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/images"}}}}, nil
}

func (n *fakeNode) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return n.containers, nil
}

func (n *fakeNode) Event(o runtime.Object, kind, reason, message string) {
	n.events = append(n.events, fmt.Sprintf("%s %s %s: %s", o.(*v1.ObjectReference).Name, kind, reason, message))
}

func (n *fakeNode) disk(path string) (images.Disk, error) {
	if path != "/images" {
		return images.Disk{}, errors.New(path)
	}
	return images.Disk{Capacity: 100, Available: 100 - n.taken - int64(10*len(n.images))}, nil
}

func (n *fakeNode) manager(t images.GCPolicy, named ...string) *gc.Manager {
	return gc.New(gc.Deps{
		Images: n, Containers: n, ReferencedImages: func() []string { return named }, Disk: n.disk, Recorder: n,
		Node: &v1.ObjectReference{Kind: "Node", Name: "n1"}, Policy: t,
	})
}

func stored(names ...string) (out []*runtimeapi.Image) {
	for _, n := range names {
		out = append(out, &runtimeapi.Image{Id: "sha256:" + n, RepoTags: []string{"docker.io/library/" + n + ":latest"},
			Size: 10})
	}
	return out
}

// row: CRI-26
func TestUnusedImagesGoLeastRecentlyUsedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{images: stored("a", "b", "c", "d", "pause"), taken: 20}
		n.images[4].Pinned = true
		n.containers = []*runtimeapi.Container{{Id: "1", ImageId: "sha256:a"}, {Id: "2", ImageRef: "sha256:b"},
			{Id: "3", Image: &runtimeapi.ImageSpec{Image: "docker.io/library/c:latest"}}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go n.manager(images.GCPolicy{High: 70, Low: 65, MinAge: 2 * time.Minute}, "d").Run(ctx)
		time.Sleep(gc.Period - time.Second)
		synctest.Wait()
		if len(n.removed) != 0 {
			t.Fatalf("removed before its time: %v", n.removed)
		}
		time.Sleep(2 * time.Second) // 70 of 100 bytes used, all in use: nothing can go
		synctest.Wait()
		if len(n.removed) != 0 || len(n.events) != 1 || !strings.Contains(n.events[0],
			"n1 Warning FreeDiskSpaceFailed: Insufficient free disk space on the node's image filesystem (70.0% of "+
				"100B used).") {
			t.Fatalf("removed %v, got %q", n.removed, n.events)
		}
		n.containers = n.containers[1:] // a is no longer used
		time.Sleep(gc.Period)
		synctest.Wait()
		if !slices.Equal(n.removed, []string{"sha256:a"}) {
			t.Fatalf("removed %v", n.removed)
		}
		// b and c were last used longer ago than nothing; d is named by a Pod, pause is pinned
		n.containers, n.taken = nil, 40
		time.Sleep(gc.Period)
		synctest.Wait()
		if !slices.Equal(n.removed, []string{"sha256:a", "sha256:b", "sha256:c"}) {
			t.Fatalf("removed %v, left %v", n.removed, n.images)
		}
	})
}

// row: CRI-26
func TestOldImagesGoWithoutNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{images: stored("a", "b")}
		n.containers = []*runtimeapi.Container{{ImageId: "sha256:b"}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go n.manager(images.GCPolicy{High: 100, Low: 80, MinAge: time.Minute, MaxAge: 12 * time.Minute}).Run(ctx)
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if len(n.removed) != 0 {
			t.Fatalf("got %v, want no removed", n.removed)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if !slices.Equal(n.removed, []string{"sha256:a"}) {
			t.Fatalf("got %v, want removed %v", n.removed, []string{"sha256:a"})
		}
	})
}

func TestSecondFailureInARowIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{broken: errors.New("runtime is away")}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go n.manager(images.GCPolicy{High: 85, Low: 80}).Run(ctx)
		time.Sleep(gc.Period + time.Second)
		synctest.Wait()
		if len(n.events) != 0 {
			t.Fatalf("got %v, want no events", n.events)
		}
		time.Sleep(gc.Period)
		synctest.Wait()
		if len(n.events) != 1 || n.events[0] != "n1 Warning ImageGCFailed: list of images: runtime is away" {
			t.Fatalf(`got %v, want 1 in events and events[0] "n1 Warning ImageGCFailed: list of images: runtime is `+
				`away"`, n.events)
		}
	})
}

// However a Pod names an image, that image is used: by a short or a full name, by a digest; also
// when the runtime has it under digests alone. Containers name it by what the runtime has, which
// may be its id.
//
// row: CRI-26
func TestAnImageIsUsedByEachOfItsNames(t *testing.T) {
	const digest = "docker.io/library/a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, name := range []string{"a", "a:latest", "docker.io/library/a:latest", digest, "sha256:a", ""} {
		for _, tagged := range []bool{true, false} {
			if !tagged && name != digest && name != "sha256:a" && name != "" {
				continue
			}
			list := stored("a", "b")
			list[0].RepoDigests = []string{digest}
			if !tagged {
				list[0].RepoTags = nil
			}
			want := []string{"sha256:b"}
			if name == "" {
				want = []string{"sha256:a", "sha256:b"}
			}
			container := &fakeNode{images: slices.Clone(list)}
			of := map[string]*fakeNode{"a Pod": {images: slices.Clone(list)}, "a container": container}
			container.containers = []*runtimeapi.Container{{Image: &runtimeapi.ImageSpec{Image: name}}}
			for who, n := range of {
				if short, id := name == "a" || name == "a:latest", name == "sha256:a"; who == "a container" && short ||
					who == "a Pod" && id {
					continue
				}
				var named []string
				if who == "a Pod" {
					named = []string{name}
				}
				_, err := n.manager(images.GCPolicy{High: 85, Low: 80}, named...).DeleteUnusedImages(t.Context())
				if err != nil || !slices.Equal(n.removed, want) {
					t.Errorf("%s names %q (tagged %t): removed %v, error %v; want %v", who, name, tagged, n.removed,
						err, want)
				}
			}
		}
	}
}

// row: CRI-26
func TestFreeTakesAllThatNobodyUses(t *testing.T) {
	n := &fakeNode{images: stored("a", "b", "pause")}
	n.images[2].Pinned = true
	n.containers = []*runtimeapi.Container{{ImageId: "sha256:b"}}
	got, err := n.manager(images.GCPolicy{High: 85, Low: 80, MinAge: time.Hour}).DeleteUnusedImages(t.Context())
	if err != nil || got != 10 || !slices.Equal(n.removed, []string{"sha256:a"}) {
		t.Fatalf("got %v, %v, %v, want no error, it 10 and removed %v", got, err, n.removed, []string{"sha256:a"})
	}
}
