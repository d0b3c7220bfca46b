package serviceaccounttoken

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

type controller struct {
	controllerContext controllerruntime.ControllerContext
	accounts          corelisters.ServiceAccountLister
	secrets           corelisters.SecretLister
}

// tokenSecrets is the informer of the Secrets with tokens alone: others are none of a controller's
// business, and many.
func tokenSecrets(d controllerruntime.ControllerContext) cache.SharedIndexInformer {
	return d.Informers.InformerFor(&corev1.Secret{},
		func(c kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
			return coreinformers.NewFilteredSecretInformer(c, metav1.NamespaceAll, resync,
				cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, func(o *metav1.ListOptions) {
					o.FieldSelector = fields.OneTermEqualSelector("type",
						string(corev1.SecretTypeServiceAccountToken)).String()
				})
		})
}

// New returns serviceaccount-token-controller; without d.ServiceAccountToken one that does nothing.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	if d.ServiceAccountToken == nil {
		return controllerruntime.Idle{}
	}
	secrets, accounts := tokenSecrets(d), d.Informers.Core().V1().ServiceAccounts()
	c := &controller{d, accounts.Lister(), corelisters.NewSecretLister(secrets.GetIndexer())}
	q := controllerruntime.NewQueue("serviceaccount_tokens_service", 2, c.sync)
	q.Watch(secrets, func(old, cur runtime.Object) []string {
		s, ok := cur.(*corev1.Secret)
		if !ok {
			s, ok = old.(*corev1.Secret)
		}
		if !ok || s.Type != corev1.SecretTypeServiceAccountToken {
			return nil
		}
		return []string{keyOf(s).String()}
	})
	q.Watch(accounts.Informer(), func(old, cur runtime.Object) []string {
		was, ok := old.(*corev1.ServiceAccount)
		if is, there := cur.(*corev1.ServiceAccount); !ok || there && is.UID == was.UID {
			return nil
		}
		return []string{syncKey{Namespace: was.Namespace, Account: was.Name, AccountUID: was.UID}.String()}
	})
	return q
}

// syncKey is a Secret with the account that its annotations name, or, without Secret, an account
// that has gone. It says enough to find what refers to something that is not there any more.
type syncKey struct {
	Namespace, Secret, Account string
	UID, AccountUID            types.UID
}

func keyOf(s *corev1.Secret) syncKey {
	return syncKey{Namespace: s.Namespace, Secret: s.Name, UID: s.UID,
		Account: s.Annotations[corev1.ServiceAccountNameKey], AccountUID: uidOf(s)}
}

func uidOf(s *corev1.Secret) types.UID { return types.UID(s.Annotations[corev1.ServiceAccountUIDKey]) }

// String joins the parts by slashes, which none of them has but an annotation that names no
// account.
func (k syncKey) String() string {
	return strings.Join([]string{k.Namespace, k.Secret, string(k.UID), string(k.AccountUID), k.Account}, "/")
}

func parseKey(key string) (syncKey, error) {
	part := strings.SplitN(key, "/", 5)
	if len(part) < 5 {
		return syncKey{}, fmt.Errorf("%q is no key of a token", key)
	}
	return syncKey{Namespace: part[0], Secret: part[1], UID: types.UID(part[2]), AccountUID: types.UID(part[3]),
		Account: part[4]}, nil
}

func (c *controller) sync(ctx context.Context, key string) (time.Duration, error) {
	k, err := parseKey(key)
	if err != nil || k.Account == "" {
		return 0, err
	}
	if k.Secret == "" {
		return 0, c.deleteTokens(ctx, k)
	}
	s, err := c.secrets.Secrets(k.Namespace).Get(k.Secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	if err != nil || s.UID != k.UID {
		return 0, retry.RetryOnConflict(retry.DefaultBackoff, func() error { return c.removeReference(ctx, k) })
	}
	account, err := c.account(ctx, k)
	switch {
	case apierrors.IsNotFound(err):
		return 0, c.delete(ctx, s)
	case err != nil:
		return 0, err
	}
	return 0, c.fill(ctx, account, s)
}

// account returns the account that a key names, from the API if the cache does not have it:
// NotFound also for another one of its name.
func (c *controller) account(ctx context.Context, k syncKey) (*corev1.ServiceAccount, error) {
	a, err := c.accounts.ServiceAccounts(k.Namespace).Get(k.Account)
	if err == nil && (k.AccountUID == "" || k.AccountUID == a.UID) {
		return a, nil
	}
	a, err = c.controllerContext.Client.CoreV1().ServiceAccounts(k.Namespace).Get(ctx, k.Account, metav1.GetOptions{})
	if err == nil && k.AccountUID != "" && k.AccountUID != a.UID {
		return nil, apierrors.NewNotFound(corev1.Resource("serviceaccounts"), k.Account)
	}
	return a, err
}

// fill writes what the Secret lacks. The decision is made once more on the Secret as the API has
// it; one that is newer than the cache's comes again.
func (c *controller) fill(ctx context.Context, account *corev1.ServiceAccount, cached *corev1.Secret) error {
	d := c.controllerContext
	if NeedsOf(cached, d.RootCA) == (Needs{}) {
		return nil
	}
	s, err := d.Client.CoreV1().Secrets(cached.Namespace).Get(ctx, cached.Name, metav1.GetOptions{})
	if err != nil {
		return controllerruntime.IgnoreNotFound(err)
	}
	need := NeedsOf(s, d.RootCA)
	if s.ResourceVersion != cached.ResourceVersion || need == (Needs{}) {
		return nil
	}
	if s.Data == nil {
		s.Data = map[string][]byte{}
	}
	if need.RootCA {
		s.Data[corev1.ServiceAccountRootCAKey] = d.RootCA
	}
	if need.Namespace {
		s.Data[corev1.ServiceAccountNamespaceKey] = []byte(s.Namespace)
	}
	if need.Token {
		token, err := d.ServiceAccountToken(account, s)
		if err != nil {
			return err
		}
		s.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	}
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, corev1.ServiceAccountNameKey, account.Name)
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, corev1.ServiceAccountUIDKey, string(account.UID))
	_, err = d.Client.CoreV1().Secrets(s.Namespace).Update(ctx, s, metav1.UpdateOptions{})
	return controllerruntime.IgnoreNotFound(err)
}

// deleteTokens deletes the Secrets of an account that has gone. Those that say no uid are another
// account's if there is one of that name.
func (c *controller) deleteTokens(ctx context.Context, k syncKey) error {
	a, err := c.accounts.ServiceAccounts(k.Namespace).Get(k.Account)
	replaced := err == nil
	if replaced && a.UID == k.AccountUID {
		return nil
	}
	all, err := c.secrets.Secrets(k.Namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range all {
		if IsOf(s, k.Account, k.AccountUID) && !(replaced && uidOf(s) == "") {
			errs = append(errs, c.delete(ctx, s))
		}
	}
	return errors.Join(errs...)
}

func (c *controller) delete(ctx context.Context, s *corev1.Secret) error {
	return controllerruntime.IgnoreNotFound(c.controllerContext.Client.CoreV1().Secrets(s.Namespace).Delete(ctx, s.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(s.UID))}))
}

// removeReference takes a Secret that has gone off the list of its account.
func (c *controller) removeReference(ctx context.Context, k syncKey) error {
	cached, err := c.accounts.ServiceAccounts(k.Namespace).Get(k.Account)
	if err != nil || k.AccountUID != "" && k.AccountUID != cached.UID {
		return controllerruntime.IgnoreNotFound(err)
	}
	accounts := c.controllerContext.Client.CoreV1().ServiceAccounts(k.Namespace)
	a, err := accounts.Get(ctx, k.Account, metav1.GetOptions{})
	if err != nil {
		return controllerruntime.IgnoreNotFound(err)
	}
	rest, has := withoutReference(a.Secrets, k.Secret)
	if !has || a.UID != cached.UID {
		return nil
	}
	a.Secrets = rest
	_, err = accounts.Update(ctx, a, metav1.UpdateOptions{})
	return controllerruntime.IgnoreNotFound(err)
}
