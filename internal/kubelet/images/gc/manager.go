package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	units "github.com/docker/go-units"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/images"
)

// Period is how long lies between two collections, as upstream.
const Period = 5 * time.Minute

// Images is the part of CRI's image service that collecting needs.
type Images interface {
	ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error)
	RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error
	ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// Containers is the part of CRI's runtime service that collecting needs.
type Containers interface {
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
}

// Recorder takes Kubernetes events.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// Deps is what a Manager works with.
type Deps struct {
	Images     Images
	Containers Containers
	// names of images that Pods of this node use or will use, image volumes among them; nil: none
	ReferencedImages func() []string
	Disk             func(path string) (images.Disk, error) // of the file system path is on
	Recorder         Recorder                               // about Node
	Node             *v1.ObjectReference
	Policy           images.GCPolicy
	OnRemoved        func(ctx context.Context, id string) // called for each image that went; may be nil
	Counted          func(reason string)                  // told why it went: age or space; may be nil
}

// Manager collects images. Its methods may be called side by side.
type Manager struct {
	d Deps

	mu       sync.Mutex
	records  map[string]images.StoredImage // by id; FirstDetected and LastUsed are kept from one look to the next
	failures int                           // collections in a row that failed
}

// New returns a Manager.
func New(d Deps) *Manager { return &Manager{d: d, records: map[string]images.StoredImage{}} }

// Run collects every Period until ctx ends; not at all when the thresholds forbid it.
func (c *Manager) Run(ctx context.Context) {
	if c.d.Policy.High == 100 && c.d.Policy.MaxAge == 0 {
		return
	}
	// What was used before the kubelet came is as old as its first look.
	if _, _, err := c.detectImages(ctx, time.Now()); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Cannot list images for collection")
	}
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		c.reportFailure(ctx, c.GarbageCollect(ctx, time.Now()))
	}
}

// reportFailure reports failures: the first in a row to the log only, as upstream does, because
// measures may not be there yet.
func (c *Manager) reportFailure(ctx context.Context, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.failures = 0
		return
	}
	if ctx.Err() != nil {
		return
	}
	log := klog.FromContext(ctx)
	if c.failures++; c.failures == 1 {
		log.Error(err, "Image garbage collection failed once. Stats initialization may not have completed yet")
		return
	}
	log.Error(err, "Image garbage collection failed multiple times in a row")
	c.d.Recorder.Event(c.d.Node, v1.EventTypeWarning, "ImageGCFailed", err.Error())
}

// GarbageCollect looks, decides and removes once.
func (c *Manager) GarbageCollect(ctx context.Context, now time.Time) error {
	disk, err := c.disk(ctx)
	if err != nil {
		return err
	}
	if disk.Capacity == 0 {
		c.d.Recorder.Event(c.d.Node, v1.EventTypeWarning, "InvalidDiskCapacity",
			"invalid capacity 0 on image filesystem")
		return errors.New("invalid capacity 0 on image filesystem")
	}
	stored, used, err := c.detectImages(ctx, now)
	if err != nil {
		return err
	}
	plan := images.PlanGC(now,
		images.GCState{Disk: disk, Images: stored, InUse: func(id string) bool { return used[id] }}, c.d.Policy)
	freed, err := c.remove(ctx, plan.Remove)
	if err != nil {
		return err
	}
	if freed < plan.Wanted {
		c.d.Recorder.Event(c.d.Node, v1.EventTypeWarning, "FreeDiskSpaceFailed", fmt.Sprintf(
			"Insufficient free disk space on the node's image filesystem (%.1f%% of %s used). Failed to free "+
				"sufficient space by deleting unused images. Consider resizing the disk or deleting unused files.",
			100*float64(disk.Capacity-disk.Available)/float64(disk.Capacity), units.BytesSize(float64(disk.Capacity))))
		return fmt.Errorf("failed to garbage collect required amount of images. Attempted to free %d bytes, but only "+
			"found %d bytes eligible to free", plan.Wanted, freed)
	}
	return nil
}

// DeleteUnusedImages removes every image that nothing uses, whatever its age: what a node short of
// disk does before it evicts. It returns the bytes freed.
func (c *Manager) DeleteUnusedImages(ctx context.Context) (int64, error) {
	now := time.Now()
	stored, used, err := c.detectImages(ctx, now)
	if err != nil {
		return 0, err
	}
	// A full disk of no room, and no age: all that may go goes.
	plan := images.PlanGC(now.Add(time.Nanosecond), images.GCState{
		Disk: images.Disk{Capacity: 1 << 50}, Images: stored, InUse: func(id string) bool { return used[id] },
	}, images.GCPolicy{})
	return c.remove(ctx, plan.Remove)
}

func (c *Manager) remove(ctx context.Context, list []images.StoredImage) (int64, error) {
	var freed int64
	var errs []error
	for _, s := range list {
		klog.FromContext(ctx).Info("Removing image to free bytes", "imageID", s.ID, "size", s.Bytes)
		if err := c.d.Images.RemoveImage(ctx, &runtimeapi.ImageSpec{Image: s.ID}); err != nil {
			errs = append(errs, err)
			continue
		}
		freed += s.Bytes
		c.mu.Lock()
		delete(c.records, s.ID)
		c.mu.Unlock()
		if c.d.Counted != nil {
			c.d.Counted(c.why(s))
		}
		if c.d.OnRemoved != nil {
			c.d.OnRemoved(ctx, s.ID)
		}
	}
	if len(errs) > 0 {
		return freed, fmt.Errorf("wanted to free %d images, but freed %d bytes space with errors in image deletion: %w",
			len(list), freed, errors.Join(errs...))
	}
	return freed, nil
}

// why is upstream's word for the cause of an image's end.
func (c *Manager) why(s images.StoredImage) string {
	since := s.LastUsed
	if since.IsZero() {
		since = s.FirstDetected
	}
	if age := c.d.Policy.MaxAge; age > 0 && time.Since(since) > age {
		return "age"
	}
	return "space"
}

func (c *Manager) disk(ctx context.Context) (images.Disk, error) {
	info, err := c.d.Images.ImageFsInfo(ctx)
	if err != nil {
		return images.Disk{}, fmt.Errorf("image file system: %w", err)
	}
	if len(info.GetImageFilesystems()) == 0 {
		return images.Disk{}, errors.New("image file system: the runtime names none")
	}
	path := info.ImageFilesystems[0].GetFsId().GetMountpoint()
	d, err := c.d.Disk(path)
	if err != nil {
		return images.Disk{}, fmt.Errorf("image file system %s: %w", path, err)
	}
	d.Available = min(d.Available, d.Capacity)
	return d, nil
}

// detectImages lists the images and notes which are in use now.
func (c *Manager) detectImages(ctx context.Context,
	now time.Time) (stored []images.StoredImage, used map[string]bool, err error) {
	listed, err := c.d.Images.ListImages(ctx, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("list of images: %w", err)
	}
	containers, err := c.d.Containers.ListContainers(ctx, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("list of containers: %w", err)
	}
	names := map[string]bool{}
	for _, k := range containers {
		for _, n := range []string{k.GetImageId(), k.GetImageRef(), k.GetImage().GetImage()} {
			names[n] = true
		}
	}
	if c.d.ReferencedImages != nil {
		for _, n := range c.d.ReferencedImages() {
			names[fullName(n)] = true
		}
	}
	delete(names, "")
	used = map[string]bool{}
	c.mu.Lock()
	defer c.mu.Unlock()
	still := make(map[string]images.StoredImage, len(listed))
	for _, i := range listed {
		s, known := c.records[i.GetId()]
		if !known {
			s.FirstDetected = now
		}
		s.ID, s.Bytes, s.Pinned = i.GetId(), int64(i.GetSize()), i.GetPinned()
		if uses(names, i) {
			used[s.ID], s.LastUsed = true, now
		}
		still[s.ID] = s
		stored = append(stored, s)
	}
	c.records = still
	return stored, used, nil
}

func uses(names map[string]bool, i *runtimeapi.Image) bool {
	return names[i.GetId()] || slices.ContainsFunc(append(slices.Clone(i.GetRepoTags()), i.GetRepoDigests()...),
		func(n string) bool { return names[n] || names[fullName(n)] })
}

// fullName is the name with registry, path and tag, as runtimes list it; what cannot be read stays
// as it is.
func fullName(name string) string {
	if long, err := images.FullName(name); err == nil {
		return long
	}
	return name
}
