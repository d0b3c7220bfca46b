package pullmanager

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/images"
)

// PullManager is the records of one node.
type PullManager struct {
	policy          Policy
	pulling, pulled string // directories

	mu      sync.Mutex
	pending map[string]int // pulls under way by name
}

// Open makes the directories below dir (the kubelet's own).
func Open(dir string, p Policy) (*PullManager, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	b := &PullManager{policy: p, pulling: filepath.Join(dir, "image_manager", "pulling"),
		pulled: filepath.Join(dir, "image_manager", "pulled"), pending: map[string]int{}}
	for _, d := range []string{b.pulling, b.pulled} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("records of pulled images: %w", err)
		}
	}
	return b, nil
}

// ImageStatusGetter tells which image a name stands for; CRI's image service is one.
type ImageStatusGetter interface {
	ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error)
}

// Recover settles pulls that the end of the kubelet cut off: an image that has come since was
// pulled by the kubelet, and nobody knows with what.
func (b *PullManager) Recover(ctx context.Context, runtime ImageStatusGetter) error {
	entries, err := os.ReadDir(b.pulling)
	if err != nil {
		return fmt.Errorf("records of pulled images: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(b.pulling, e.Name())
		intent := &kubelet.ImagePullIntent{}
		if err := load(path, intent); err != nil {
			klog.FromContext(ctx).Error(err, "Record of a pull cannot be read; it is dropped", "path", path)
		} else if found, err := runtime.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: intent.Image}, false); err !=
			nil {
			return fmt.Errorf("image %q, whose pull was cut off: %w", intent.Image, err)
		} else if id := found.GetImage().GetId(); id != "" {
			if err := b.updateRecord(id, func(r kubelet.ImagePulledRecord) kubelet.ImagePulledRecord {
				if r.CredentialMapping == nil {
					r.CredentialMapping = map[string]kubelet.ImagePullCredentials{withoutTag(intent.Image): {}}
				}
				return r
			}); err != nil {
				return err
			}
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("records of pulled images: %w", err)
		}
	}
	return nil
}

// MayUse tells whether a Pod may use an image that is there. credentials are asked only when they
// matter.
func (b *PullManager) MayUse(ctx context.Context, name, id string, credentials func() []images.Credential) bool {
	b.mu.Lock()
	record, err := b.read(id)
	under := b.pending[name] > 0
	b.mu.Unlock()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Record of a pulled image cannot be read; the Pod has to prove its right",
			"image", name)
	}
	pulledByKubelet := record != nil || err != nil || under
	if !b.policy.RequiresVerification(name, pulledByKubelet) {
		return true
	}
	if r := record; r != nil && r.CredentialMapping[withoutTag(name)].NodePodsAccessible {
		return true
	}
	if record == nil {
		return false
	}
	has := credentials()
	if !AllowsUse(record, name, has) {
		return false
	}
	// A secret whose name or content is new opens the image from now on.
	for i := range has {
		if AllowsUse(record, name, has[i:i+1]) {
			if next := AddCredentials(*record, name, &has[i]); !equalRecords(next, *record) {
				if err := b.updateRecord(id, func(r kubelet.ImagePulledRecord) kubelet.ImagePulledRecord {
					return AddCredentials(r, name, &has[i])
				}); err != nil {
					klog.FromContext(ctx).Error(err, "Record of a pulled image not written", "image", name)
				}
			}
			break
		}
	}
	return true
}

func equalRecords(a, b kubelet.ImagePulledRecord) bool {
	x, errX := json.Marshal(a.CredentialMapping)
	y, errY := json.Marshal(b.CredentialMapping)
	return errX == nil && errY == nil && string(x) == string(y)
}

// RecordPullIntent notes that an image is about to be pulled.
func (b *PullManager) RecordPullIntent(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending[name]++; b.pending[name] > 1 {
		return nil
	}
	intent := &kubelet.ImagePullIntent{TypeMeta: typeMeta("ImagePullIntent"), Image: name}
	if err := write(filepath.Join(b.pulling, fileName(name)), intent); err != nil {
		b.pending[name]--
		return err
	}
	return nil
}

// RecordPullResult notes how a pull ended. id is empty when it failed; used are the credentials
// that worked, nil for none.
func (b *PullManager) RecordPullResult(name, id string, used *images.Credential) error {
	var err error
	if id != "" {
		err = b.updateRecord(id, func(r kubelet.ImagePulledRecord) kubelet.ImagePulledRecord {
			return AddCredentials(r, name, used)
		})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending[name]--; b.pending[name] > 0 {
		return err
	}
	delete(b.pending, name)
	return errors.Join(err, os.Remove(filepath.Join(b.pulling, fileName(name))))
}

// Forget drops the record of an image that was removed.
func (b *PullManager) Forget(id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := os.Remove(filepath.Join(b.pulled, fileName(id))); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// updateRecord changes an image's record, or makes it.
func (b *PullManager) updateRecord(id string, change func(kubelet.ImagePulledRecord) kubelet.ImagePulledRecord) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, err := b.read(id)
	if err != nil || old == nil {
		old = &kubelet.ImagePulledRecord{} // what cannot be read is written anew
	}
	next := change(*old)
	next.TypeMeta, next.ImageRef, next.LastUpdatedTime = typeMeta("ImagePulledRecord"), id,
		metav1.NewTime(time.Now().UTC().Truncate(time.Second))
	return write(filepath.Join(b.pulled, fileName(id)), &next)
}

// read returns nil when there is no record.
func (b *PullManager) read(id string) (*kubelet.ImagePulledRecord, error) {
	r := &kubelet.ImagePulledRecord{}
	err := load(filepath.Join(b.pulled, fileName(id)), r)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func typeMeta(name string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: name, APIVersion: kubelet.SchemeGroupVersion.String()}
}

func fileName(name string) string { return fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(name))) }

func load(path string, into any) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// write puts the file in place as a whole, so that a crash leaves the old or the new one.
func write(path string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	next := path + ".tmp"
	if err := os.WriteFile(next, raw, 0o600); err != nil {
		return fmt.Errorf("record of a pulled image: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("record of a pulled image: %w", err)
	}
	return nil
}
