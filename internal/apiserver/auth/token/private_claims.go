package token

import (
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	apiserverserviceaccount "k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// Claims are what a service-account token says.
type Claims struct {
	jwt.Claims
	// in the place of the library's, which writes a single one as a string
	Audience audienceList   `json:"aud,omitempty"`
	Private  *PrivateClaims `json:"kubernetes.io,omitempty"`
}

// audienceList are always written as a list, as upstream does, and read from a string too.
type audienceList []string

// UnmarshalJSON reads a list or a string.
func (a *audienceList) UnmarshalJSON(b []byte) error {
	var list jwt.Audience
	if err := list.UnmarshalJSON(b); err != nil {
		return err
	}
	*a = audienceList(list)
	return nil
}

// PrivateClaims is the claim kubernetes.io.
type PrivateClaims struct {
	Namespace      string           `json:"namespace,omitempty"`
	ServiceAccount ObjectReference  `json:"serviceaccount,omitempty"`
	Pod            *ObjectReference `json:"pod,omitempty"`
	Secret         *ObjectReference `json:"secret,omitempty"`
	Node           *ObjectReference `json:"node,omitempty"`
	WarnAfter      *jwt.NumericDate `json:"warnafter,omitempty"`
}

// ObjectReference names an object a token is bound to.
type ObjectReference struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// TokenRequest is what a token is asked to say. At most one of Pod, Secret and Node binds it; a
// Node beside a Pod only informs.
type TokenRequest struct {
	Account   *corev1.ServiceAccount
	Pod       *corev1.Pod
	Secret    *corev1.Secret
	Node      *corev1.Node
	Audiences []string
	Lifetime  time.Duration
	WarnAfter time.Duration // use after this is answered but warned about; 0 means never
	ID        string        // jti
}

// Claims returns the claims of a requested token, issued at the given time.
func (w TokenRequest) Claims(issuer string, now time.Time) Claims {
	c := Claims{
		Claims: jwt.Claims{
			Issuer:   issuer,
			Subject:  apiserverserviceaccount.MakeUsername(w.Account.Namespace, w.Account.Name),
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now),
			Expiry: jwt.NewNumericDate(now.Add(w.Lifetime)),
			ID:     w.ID,
		},
		Audience: w.Audiences,
		Private: &PrivateClaims{
			Namespace:      w.Account.Namespace,
			ServiceAccount: ObjectReference{Name: w.Account.Name, UID: string(w.Account.UID)},
		},
	}
	if w.Secret != nil {
		c.Private.Secret = &ObjectReference{w.Secret.Name, string(w.Secret.UID)}
	}
	if w.Pod != nil {
		c.Private.Pod = &ObjectReference{w.Pod.Name, string(w.Pod.UID)}
	}
	if w.Node != nil {
		c.Private.Node = &ObjectReference{w.Node.Name, string(w.Node.UID)}
	}
	if w.WarnAfter != 0 {
		c.Private.WarnAfter = jwt.NewNumericDate(now.Add(w.WarnAfter))
	}
	return c
}
