package mode

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
)

// Mode implements [policy.Switch]. A session whose log cannot be read is in the strictest mode.
func (m *manager) Mode(s *session.Session) policy.Mode {
	if s == nil {
		return m.configured
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	mode, err := m.modeLocked(s)
	if err != nil {
		m.scope.Log().Warn("a session is "+string(policy.ReadOnly)+" until its mode is known", "err", err)
		return policy.ReadOnly
	}
	return mode
}

// modeLocked returns the mode of a session, from its log when it is asked about first. What a fork
// copied from another session does not count.
func (m *manager) modeLocked(s *session.Session) (policy.Mode, error) {
	if mode, known := m.sessions[s.ID()]; known {
		return mode, nil
	}
	mode := m.configured
	for e, err := range s.Events(m.scope.Context(), s.Header().Seed) {
		if err != nil {
			return "", fmt.Errorf("read the mode of session %s: %w", s.ID(), err)
		}
		if e.Type != policy.ModeSwitched {
			continue
		}
		var d policy.ModeData
		err := json.Unmarshal(e.Data, &d)
		if err == nil {
			mode, err = policy.ParseMode(string(d.Mode))
		}
		if err != nil {
			return "", fmt.Errorf("read the mode of session %s: event %d: %w", s.ID(), e.Seq, err)
		}
	}
	m.sessions[s.ID()] = mode
	return mode, nil
}

// SwitchMode implements [policy.Switch].
func (m *manager) SwitchMode(s *session.Session, mode policy.Mode, by string) error {
	if _, err := policy.ParseMode(string(mode)); err != nil {
		return fmt.Errorf("switch the mode of session %s: %w", s.ID(), err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := s.Append(session.Draft{Type: policy.ModeSwitched, Data: policy.ModeData{Mode: mode, By: by}}); err != nil {
		return fmt.Errorf("switch the mode of session %s: %w", s.ID(), err)
	}
	m.sessions[s.ID()] = mode
	return nil
}

// began notes that a session is new, so that its log need not be read.
func (m *manager) began(_ context.Context, n agent.StartNotice) error {
	if n.Source != "startup" {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.sessions[n.Agent.Session().ID()]; !known {
		m.sessions[n.Agent.Session().ID()] = m.configured
	}
	return nil
}

func (m *manager) forget(_ context.Context, s *session.Session) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions, s.ID())
	return nil
}
