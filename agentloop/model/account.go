package model

import (
	"context"
	"errors"
	"sync"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Spend is what answers used and cost.
type Spend struct {
	Calls      int // answers, those of no use included
	Unreported int // of these, answers whose tokens the server did not tell
	Unpriced   int // of these, answers of unknown cost: without a price, or without tokens to price
	Usage      chat.Usage
	USD        float64 // of the answers whose cost is known
}

// Add returns the sum of both.
func (s Spend) Add(t Spend) Spend {
	return Spend{
		Calls: s.Calls + t.Calls, Unreported: s.Unreported + t.Unreported, Unpriced: s.Unpriced + t.Unpriced,
		Usage: s.Usage.Add(t.Usage), USD: s.USD + t.USD,
	}
}

// Account adds up what the answers to the requests of one context used and cost. Its
// zero value is empty; its methods may be called from many goroutines at once.
type Account struct {
	mu    sync.Mutex
	spend Spend
}

// Spend returns what was booked so far.
func (a *Account) Spend() Spend {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.spend
}

// Take returns what was booked so far and empties the account.
func (a *Account) Take() Spend {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.spend
	a.spend = Spend{}
	return s
}

// book adds one answer.
func (a *Account) book(u chat.Usage, price *Price) {
	s := Spend{Calls: 1, Usage: u}
	reported := u.PromptTokens > 0 || u.CompletionTokens > 0
	if !reported {
		s.Unreported = 1
	}
	if price == nil || !reported && !price.Free() {
		s.Unpriced = 1
	} else {
		s.USD = price.USD(u)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spend = a.spend.Add(s)
}

type accountKey struct{}

// WithAccount returns a context whose requests are booked to an account, in place of
// the one ctx may have. Pools of ForServers and ForClients book every answer, also those
// that are thrown away because they can't be used. What a server charges for requests
// that were broken off it tells nobody.
func WithAccount(ctx context.Context, a *Account) context.Context {
	return context.WithValue(ctx, accountKey{}, a)
}

// metered books the answers of one server.
type metered struct {
	Client
	price *Price
}

// Complete books the answer to the account of ctx, if there is one.
func (m *metered) Complete(ctx context.Context, req *Request) (*Response, error) {
	answer, err := m.Client.Complete(ctx, req)
	account, ok := ctx.Value(accountKey{}).(*Account)
	if !ok {
		return answer, err
	}
	var failure *Error
	switch {
	case err == nil:
		account.book(answer.Usage, m.price)
	case errors.As(err, &failure) && failure.Usage != chat.Usage{}:
		account.book(failure.Usage, m.price)
	}
	return answer, err
}

// CloseIdleConnections closes those of the client.
func (m *metered) CloseIdleConnections() { closeIdle(m.Client) }
