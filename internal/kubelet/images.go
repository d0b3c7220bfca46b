package kubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/image"
	"github.com/gantry-project/gantry/internal/kubelet/image/collect"
	"github.com/gantry-project/gantry/internal/kubelet/image/credentials"
	"github.com/gantry-project/gantry/internal/kubelet/image/pull"
	"github.com/gantry-project/gantry/internal/kubelet/image/record"
)

// imageParts are what the node does about images.
type imageParts struct {
	providers *credentials.Providers
	book      *record.Book // nil: the configuration does not want it
}

func newImageParts(o Options) (imageParts, error) {
	var parts imageParts
	var err error
	parts.providers, err = credentials.New(credentials.Deps{Files: o.Plugins, Accounts: newAccounts(o.Client), Configs: credentials.NodeConfigs(o.RootDir)})
	if err != nil {
		return parts, err
	}
	if verify := o.Config.ImagePullCredentialsVerificationPolicy; verify != "" {
		parts.book, err = record.Open(o.RootDir, record.Policy{Verify: verify, Allow: o.Config.PreloadedImagesVerificationAllowlist})
	}
	return parts, err
}

func (k *Kubelet) puller(ctx context.Context) *pull.Puller {
	o := k.o
	d := pull.Deps{Images: o.Images, Recorder: k.events, Journal: o.Journal, MaxParallel: o.parallelPulls(), Node: k.images.providers, Burst: int(o.Config.RegistryBurst)}
	if q := o.Config.RegistryPullQPS; q != nil {
		d.QPS = float32(*q)
	}
	if s := o.Ports.Sights; s != nil {
		d.Tags, d.Progress = s.Tags, s.Pulled
	}
	if b := k.images.book; b != nil {
		if err := b.Recover(ctx, o.Images); err != nil {
			klog.FromContext(ctx).Error(err, "Pulls that were cut off are not settled; Pods have to prove their right to those images")
		}
		d.Records = b
	}
	return pull.New(d)
}

// collectImages removes unused images until ctx ends.
func (k *Kubelet) collectImages(ctx context.Context) {
	o := k.o
	if o.Ports.Disk == nil {
		return
	}
	c := collect.New(collect.Deps{
		Images: o.Images, Containers: o.Runtime, Named: k.namedImages, Disk: o.Ports.Disk, Recorder: k.recorder,
		Node:       &v1.ObjectReference{Kind: "Node", Name: o.NodeName, UID: types.UID(o.NodeName)},
		Thresholds: thresholds(o), Removed: k.imageRemoved, Counted: o.Ports.Meter.ImageCollected,
	})
	c.Run(ctx)
}

func (k *Kubelet) imageRemoved(ctx context.Context, id string) {
	if k.images.book == nil {
		return
	}
	if err := k.images.book.Forget(id); err != nil {
		klog.FromContext(ctx).Error(err, "Record of a removed image not dropped", "imageID", id)
	}
}

func thresholds(o Options) image.Thresholds {
	c := o.Config
	t := image.Thresholds{High: 85, Low: 80, MinAge: c.ImageMinimumGCAge.Duration, MaxAge: c.ImageMaximumGCAge.Duration}
	if p := c.ImageGCHighThresholdPercent; p != nil {
		t.High = int(*p)
	}
	if p := c.ImageGCLowThresholdPercent; p != nil {
		t.Low = int(*p)
	}
	return t
}

// namedImages are the images of the Pods that are not at their end, whether their containers are there yet or not.
func (k *Kubelet) namedImages() []string {
	var out []string
	for _, p := range k.Pods() {
		if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				out = append(out, list[i].Image)
			}
		}
		for i := range p.Spec.EphemeralContainers {
			out = append(out, p.Spec.EphemeralContainers[i].Image)
		}
		for _, v := range p.Spec.Volumes {
			if v.Image != nil {
				out = append(out, v.Image.Reference)
			}
		}
	}
	return out
}

// accounts asks the API for what credential provider plugins are told of a Pod's service account; tokens are kept until four fifths of their life are over.
type accounts struct {
	client kubernetes.Interface

	mu     sync.Mutex
	tokens map[string]authenticationv1.TokenRequestStatus
}

func newAccounts(client kubernetes.Interface) *accounts {
	return &accounts{client: client, tokens: map[string]authenticationv1.TokenRequestStatus{}}
}

// Account reads a service account.
func (a *accounts) Account(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	return a.client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
}

// accountTokenLife is how long such a token is asked to last, as upstream's default.
const accountTokenLife = time.Hour

// Token asks for a token bound to the Pod.
func (a *accounts) Token(ctx context.Context, p *v1.Pod, audience string) (string, error) {
	key := fmt.Sprintf("%s %s", p.UID, audience)
	now := time.Now()
	a.mu.Lock()
	for k, t := range a.tokens {
		if now.After(t.ExpirationTimestamp.Add(-accountTokenLife / 5)) {
			delete(a.tokens, k)
		}
	}
	t, ok := a.tokens[key]
	a.mu.Unlock()
	if ok {
		return t.Token, nil
	}
	seconds := int64(accountTokenLife.Seconds())
	r, err := a.client.CoreV1().ServiceAccounts(p.Namespace).CreateToken(ctx, p.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			Audiences: []string{audience}, ExpirationSeconds: &seconds,
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	a.mu.Lock()
	a.tokens[key] = r.Status
	a.mu.Unlock()
	return r.Status.Token, nil
}
