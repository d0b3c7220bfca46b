package serviceaccounttoken

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/pod"
)

const (
	// cleanInterval is the time between two looks at all tokens, as upstream; a shorter clean-up
	// period is looked at as often as it ends.
	cleanInterval = 24 * time.Hour
	// trackingConfigMap is the API server's ConfigMap in kube-system with the day since when it
	// writes the use of tokens down: upstream's name.
	trackingConfigMap = "kube-apiserver-legacy-service-account-token-tracking"
)

type cleaner struct {
	controllerContext controllerruntime.ControllerContext
	accounts          corelisters.ServiceAccountLister
	secrets           corelisters.SecretLister
	pods              corelisters.PodLister
	period            time.Duration
}

// NewCleaner returns legacy-serviceaccount-token-cleaner-controller.
func NewCleaner(d controllerruntime.ControllerContext) controllerruntime.Runner {
	core, secrets := d.Informers.Core().V1(), tokenSecrets(d)
	c := &cleaner{controllerContext: d, accounts: core.ServiceAccounts().Lister(),
		secrets: corelisters.NewSecretLister(secrets.GetIndexer()), pods: core.Pods().Lister(),
		period: d.LegacyTokenCleanUpPeriod}
	if c.period == 0 {
		c.period = DefaultCleanUpPeriod
	}
	interval := max(time.Second, min(cleanInterval, c.period))
	all := func(ctx context.Context, _ string) (time.Duration, error) { return interval, c.clean(ctx) }
	q := controllerruntime.NewQueue("legacytokencleaner", 1, all)
	q.WaitForInformers(core.ServiceAccounts().Informer(), secrets, core.Pods().Informer())
	q.Add("all")
	return q
}

func (c *cleaner) clean(ctx context.Context) error {
	m, err := c.controllerContext.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, trackingConfigMap,
		metav1.GetOptions{})
	if err != nil {
		return err
	}
	since, err := TrackedSince(m)
	if err != nil {
		return err
	}
	all, err := c.secrets.List(labels.Everything())
	if err != nil {
		return err
	}
	now := c.controllerContext.Time().UTC()
	var errs []error // one Secret whose write is refused keeps no other
	for _, s := range all {
		u := Usage{Secret: s, MountedBy: func(name string) bool { return c.mounted(s.Namespace, name) }}
		if a, err := c.accounts.ServiceAccounts(s.Namespace).Get(s.Annotations[corev1.ServiceAccountNameKey]); err == nil &&
			IsOf(s, a.Name, a.UID) {
			u.Account = a
		}
		errs = append(errs, c.do(ctx, s, CleanUpOf(u, since, now, c.period), now))
	}
	return errors.Join(errs...)
}

// mounted tells whether a Pod of the namespace refers to a Secret.
func (c *cleaner) mounted(namespace, secret string) bool {
	all, err := c.pods.Pods(namespace).List(labels.Everything())
	if err != nil {
		return true
	}
	found := false
	for _, p := range all {
		pod.References(p, func(resource, name string) {
			found = found || resource == "secrets" && name == secret
		})
	}
	return found
}

func (c *cleaner) do(ctx context.Context, s *corev1.Secret, step CleanUp, now time.Time) error {
	secrets := c.controllerContext.Client.CoreV1().Secrets(s.Namespace)
	var err error
	switch step {
	case MarkInvalid:
		var patch []byte
		if patch, err = json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.UID,
			"labels": map[string]string{InvalidSinceLabel: now.Format(time.DateOnly)}}}); err == nil {
			_, err = secrets.Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
	case Delete:
		err = secrets.Delete(ctx, s.Name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &s.ResourceVersion}})
	}
	return controllerruntime.IgnoreNotFound(err)
}
