package token

import (
	"context"
	"crypto"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/warning"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
)

// LegacyIssuer is the issuer of the tokens in Secrets, whatever the server's own issuer is.
const LegacyIssuer = "kubernetes/serviceaccount"

// Labels of a Secret with a token. Values are days in UTC, as 2006-01-02. Source:
// kubernetes.io/docs/reference/labels-annotations-taints.
const (
	LastUsedLabel     = "kubernetes.io/legacy-token-last-used"
	InvalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"
)

// LegacyClaims are what the token in a Secret says. It does not expire: it is good while it stands
// in its Secret and its account lives.
type LegacyClaims struct {
	jwt.Claims
	Audience   audienceList `json:"aud,omitempty"` // never written
	Namespace  string       `json:"kubernetes.io/serviceaccount/namespace,omitempty"`
	Secret     string       `json:"kubernetes.io/serviceaccount/secret.name,omitempty"`
	Account    string       `json:"kubernetes.io/serviceaccount/service-account.name,omitempty"`
	AccountUID string       `json:"kubernetes.io/serviceaccount/service-account.uid,omitempty"`
}

// NewLegacyIssuer makes an issuer of the tokens in Secrets.
func NewLegacyIssuer(key crypto.Signer) (*Issuer, error) { return NewIssuer(LegacyIssuer, key) }

// IssueLegacy signs the token of a Secret of type kubernetes.io/service-account-token.
func (i *Issuer) IssueLegacy(account *corev1.ServiceAccount, secret *corev1.Secret) (string, error) {
	raw, err := jwt.Signed(i.signer).Claims(LegacyClaims{
		Claims:    jwt.Claims{Issuer: i.name, Subject: serviceaccount.MakeUsername(account.Namespace, account.Name)},
		Namespace: account.Namespace, Secret: secret.Name, Account: account.Name, AccountUID: string(account.UID),
	}).Serialize()
	if err != nil {
		return "", fmt.Errorf("signing the token of Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return raw, nil
}

// LegacyValidator is an authenticator of the tokens in Secrets. It writes the day of their use to
// the Secrets' labels.
type LegacyValidator struct {
	keyRing
	audiences authenticator.Audiences
	objects   TokenGetter
	secrets   typedcorev1.SecretsGetter
	now       func() time.Time
}

// NewLegacyValidator makes one. o.Issuers is not read. secrets writes the labels.
func NewLegacyValidator(o ValidatorOptions, secrets typedcorev1.SecretsGetter) (*LegacyValidator, error) {
	keys, err := newKeyRing([]string{LegacyIssuer}, o.Keys)
	if err != nil {
		return nil, err
	}
	v := &LegacyValidator{keyRing: keys, audiences: o.Audiences, objects: o.Objects, secrets: secrets, now: o.Now}
	if v.now == nil {
		v.now = time.Now
	}
	return v, nil
}

// AuthenticateToken implements authenticator.Token. A token of another issuer is not ours to
// validate.
func (v *LegacyValidator) AuthenticateToken(ctx context.Context, raw string) (*authenticator.Response, bool, error) {
	var c LegacyClaims
	if own, err := v.read(raw, &c); !own || err != nil {
		return nil, false, err
	}
	audit.AddAuditAnnotation(ctx, "authentication.k8s.io/legacy-token", c.Subject)
	legacyTokens.WithContext(ctx).Inc()
	shared, err := sharedAudiences(ctx, authenticator.Audiences(c.Audience), v.audiences)
	if err != nil {
		return nil, false, err
	}
	info, err := v.validate(ctx, raw, &c)
	if err != nil {
		return nil, false, err
	}
	return &authenticator.Response{User: info.UserInfo(), Audiences: shared}, true, nil
}

// check wants every claim that the rest relies on.
func (c *LegacyClaims) check() error {
	for _, claim := range []struct{ name, value string }{
		{"sub", c.Subject}, {"namespace", c.Namespace}, {"secretName", c.Secret},
		{"serviceAccountName", c.Account}, {"serviceAccountUID", c.AccountUID},
	} {
		if claim.value == "" {
			return fmt.Errorf("%s claim is missing", claim.name)
		}
	}
	if namespace, name, err := serviceaccount.SplitUsername(c.Subject); err != nil || namespace != c.Namespace ||
		name != c.Account {
		return errors.New("sub claim is invalid")
	}
	return nil
}

// validate checks that the token stands in its Secret and that the account lives under the same
// uid, and notes the use.
func (v *LegacyValidator) validate(ctx context.Context, raw string,
	c *LegacyClaims) (*serviceaccount.ServiceAccountInfo, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	secret, err := v.objects.Secret(ctx, c.Namespace, c.Secret)
	if err != nil || secret.DeletionTimestamp != nil {
		return nil, errors.New("Token has been invalidated")
	}
	if subtle.ConstantTimeCompare(secret.Data[corev1.ServiceAccountTokenKey], []byte(raw)) == 0 {
		return nil, errors.New("Token does not match server's copy")
	}
	account, err := v.objects.ServiceAccount(ctx, c.Namespace, c.Account)
	switch {
	case err != nil:
		return nil, err
	case account.DeletionTimestamp != nil:
		return nil, fmt.Errorf("ServiceAccount %s/%s has been deleted", c.Namespace, c.Account)
	case string(account.UID) != c.AccountUID:
		return nil, fmt.Errorf("ServiceAccount UID (%s) does not match claim (%s)", account.UID, c.AccountUID)
	}
	if err := v.noteUse(ctx, account, secret); err != nil {
		return nil, err
	}
	return &serviceaccount.ServiceAccountInfo{Namespace: c.Namespace, Name: c.Account, UID: c.AccountUID}, nil
}

// noteUse counts the use of a Secret's token, tells it the audit log, warns of generated ones and
// labels the Secret. One that was marked invalid is an error.
func (v *LegacyValidator) noteUse(ctx context.Context, account *corev1.ServiceAccount, s *corev1.Secret) error {
	defer v.label(ctx, s)
	if s.Labels[InvalidSinceLabel] != "" {
		audit.AddAuditAnnotation(ctx, "authentication.k8s.io/legacy-token-invalidated", s.Name+"/"+s.Namespace)
		invalidTokens.WithContext(ctx).Inc()
		return fmt.Errorf("the token in secret %s/%s for service account %s/%s has been marked invalid. Use tokens "+
			"from the TokenRequest API or manually created secret-based tokens, or remove the '%s' label from the "+
			"secret to temporarily allow use of this token", s.Namespace, s.Name, account.Namespace, account.Name,
			InvalidSinceLabel)
	}
	for _, ref := range account.Secrets {
		if ref.Name == s.Name {
			warning.AddWarning(ctx, "", "Use tokens from the TokenRequest API or manually created secret-based tokens "+
				"instead of auto-generated secret-based tokens.")
			audit.AddAuditAnnotation(ctx, "authentication.k8s.io/legacy-token-autogenerated-secret", s.Name)
			generatedTokens.WithContext(ctx).Inc()
			return nil
		}
	}
	audit.AddAuditAnnotation(ctx, "authentication.k8s.io/legacy-token-manual-secret", s.Name)
	manualTokens.WithContext(ctx).Inc()
	return nil
}

// label writes today's date to the Secret unless it has it; one of tomorrow stays, as another
// server's clock may be ahead. An error is only logged: the token is good.
func (v *LegacyValidator) label(ctx context.Context, s *corev1.Secret) {
	now := v.now().UTC()
	today := now.Format(time.DateOnly)
	if have := s.Labels[LastUsedLabel]; have == today || have == now.AddDate(0, 0, 1).Format(time.DateOnly) {
		return
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": s.UID, "labels": map[string]string{LastUsedLabel: today}}})
	if err == nil {
		_, err = v.secrets.Secrets(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "The day of a token's use cannot be written to its Secret", "secret",
			klog.KObj(s))
	}
}
