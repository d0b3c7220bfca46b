package kubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/images"
	"github.com/gantry-project/gantry/internal/kubelet/images/credentialprovider"
	"github.com/gantry-project/gantry/internal/kubelet/images/gc"
	"github.com/gantry-project/gantry/internal/kubelet/images/pull"
	"github.com/gantry-project/gantry/internal/kubelet/images/pullmanager"
	nodeutil "github.com/gantry-project/gantry/internal/node"
	"github.com/gantry-project/gantry/internal/pod"
)

// imageManagers are what the node does about images.
type imageManagers struct {
	providers *credentialprovider.Providers
	pulls     *pullmanager.PullManager // nil: the configuration does not want it
	collector *gc.Manager              // from Run on; nil: images are never collected
}

func newImageManagers(o Options) (imageManagers, error) {
	var parts imageManagers
	var err error
	parts.providers, err = credentialprovider.New(credentialprovider.Deps{Files: o.Plugins,
		ServiceAccounts: newServiceAccounts(o.Client), Configs: credentialprovider.NodeConfigs(o.RootDir),
		Ran: o.Dependencies.Metrics.CredentialPluginDone})
	if err != nil {
		return parts, err
	}
	o.Dependencies.Metrics.CredentialConfig(parts.providers.ConfigHash())
	if verify := o.Config.ImagePullCredentialsVerificationPolicy; verify != "" {
		parts.pulls, err = pullmanager.Open(o.RootDir,
			pullmanager.Policy{Verify: verify, Allow: o.Config.PreloadedImagesVerificationAllowlist})
	}
	return parts, err
}

func (k *Kubelet) newPuller(ctx context.Context) *pull.Puller {
	o := k.opts
	d := pull.Deps{Images: o.Images, Recorder: k.events, Journal: o.Journal, MaxParallel: o.parallelPulls(),
		NodeCredentials: k.images.providers, Burst: int(o.Config.RegistryBurst),
		Requested: o.Dependencies.Metrics.ImageRequested}
	if q := o.Config.RegistryPullQPS; q != nil {
		d.QPS = float32(*q)
	}
	if s := o.Dependencies.Inspector; s != nil {
		d.Tags, d.Progress = s.Tags, s.PullProgress
	}
	if b := k.images.pulls; b != nil {
		if err := b.Recover(ctx, o.Images); err != nil {
			klog.FromContext(ctx).Error(err,
				"Pulls that were cut off are not settled; Pods have to prove their right to those images")
		}
		d.Records = b
	}
	return pull.New(d)
}

// runImageGC removes unused images until ctx ends.
func (k *Kubelet) runImageGC(ctx context.Context) {
	o := k.opts
	if o.Dependencies.Disk == nil {
		return
	}
	c := gc.New(gc.Deps{
		Images: o.Images, Containers: o.Runtime, ReferencedImages: k.referencedImages, Disk: o.Dependencies.Disk,
		Recorder: k.events,
		Node:     nodeutil.Reference(o.NodeName),
		Policy:   imageGCPolicy(o), OnRemoved: k.imageRemoved, Counted: o.Dependencies.Metrics.ImageCollected,
	})
	k.mu.Lock()
	k.images.collector = c
	k.mu.Unlock()
	c.Run(ctx)
}

func (k *Kubelet) imageRemoved(ctx context.Context, id string) {
	if k.images.pulls == nil {
		return
	}
	if err := k.images.pulls.Forget(id); err != nil {
		klog.FromContext(ctx).Error(err, "Record of a removed image not dropped", "imageID", id)
	}
}

func imageGCPolicy(o Options) images.GCPolicy {
	c := o.Config
	t := images.GCPolicy{High: 85, Low: 80, MinAge: c.ImageMinimumGCAge.Duration, MaxAge: c.ImageMaximumGCAge.Duration}
	if p := c.ImageGCHighThresholdPercent; p != nil {
		t.High = int(*p)
	}
	if p := c.ImageGCLowThresholdPercent; p != nil {
		t.Low = int(*p)
	}
	return t
}

// referencedImages are the images of the Pods that are not at their end, whether their containers
// are there yet or not.
func (k *Kubelet) referencedImages() []string {
	var out []string
	for _, p := range k.Pods() {
		if pod.IsTerminal(p) {
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

// serviceAccounts asks the API for what credential provider plugins are told of a Pod's service
// account; tokens are kept until four fifths of their life are over.
type serviceAccounts struct {
	client kubernetes.Interface

	mu     sync.Mutex
	tokens map[string]authenticationv1.TokenRequestStatus
}

func newServiceAccounts(client kubernetes.Interface) *serviceAccounts {
	return &serviceAccounts{client: client, tokens: map[string]authenticationv1.TokenRequestStatus{}}
}

// GetServiceAccount reads a service account.
func (a *serviceAccounts) GetServiceAccount(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	return a.client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
}

// accountTokenLifetime is how long such a token is asked to last, as upstream's default.
const accountTokenLifetime = time.Hour

// GetToken asks for a token bound to the Pod.
func (a *serviceAccounts) GetToken(ctx context.Context, p *v1.Pod, audience string) (string, error) {
	key := fmt.Sprintf("%s %s", p.UID, audience)
	now := time.Now()
	a.mu.Lock()
	for k, t := range a.tokens {
		if now.After(t.ExpirationTimestamp.Add(-accountTokenLifetime / 5)) {
			delete(a.tokens, k)
		}
	}
	t, ok := a.tokens[key]
	a.mu.Unlock()
	if ok {
		return t.Token, nil
	}
	seconds := int64(accountTokenLifetime.Seconds())
	r, err := a.client.CoreV1().ServiceAccounts(p.Namespace).CreateToken(ctx, p.Spec.ServiceAccountName,
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{
				Audiences: []string{audience}, ExpirationSeconds: &seconds,
				BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Name,
					UID: p.UID},
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
