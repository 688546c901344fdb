; The installer for Windows 10 and later, for one user, without administrator rights. Build it on Windows, macOS or Linux:
;
;   makensis -DVERSION=... -DBUNDLE=FOLDER -DICON=FILE.ico -DOUT=mailbox-appliance-...-windows.exe mailbox-appliance.nsi
;
; BUNDLE is PyInstaller's output for mailbox-appliance.spec in this folder: mailbox-appliance.exe, mailbox-appliance-tray.exe
; and _internal, with the licenses of other parts. -DSIGN="command" is run with the path of the installer and of the
; uninstaller appended. -DFAST compresses less.
; /S installs without questions, /D=FOLDER (last, without quotes) to another folder. Exit code 2: not installed, nothing changed.

Unicode true
Target amd64-unicode
!ifndef VERSION | BUNDLE | ICON | OUT
  !error "VERSION, BUNDLE, ICON and OUT are required: -DVERSION=..."
!endif
!ifdef FAST
  SetCompressor zlib
!else
  SetCompressor /SOLID lzma
!endif
!ifdef SIGN
  !finalize `${SIGN} "%1"`
  !uninstfinalize `${SIGN} "%1"`
!endif

!include MUI2.nsh
!include FileFunc.nsh
!include LogicLib.nsh
!include WinVer.nsh

!define NAME "Mailbox Appliance"
!define PROGRAM "mailbox-appliance"
!define CONSOLE "${PROGRAM}.exe"
!define TRAY "${PROGRAM}-tray.exe"
!define UNINSTALL "Software\Microsoft\Windows\CurrentVersion\Uninstall\MailboxAppliance"
; Registry values that the program writes for "Start at login" (mailbox_appliance/tray/autostart.py).
!define RUN "Software\Microsoft\Windows\CurrentVersion\Run"
!define APPROVED "Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run"
!define RUN_NAME "MailboxAppliance"

Name "${NAME}"
OutFile "${OUT}"
RequestExecutionLevel user
ManifestDPIAware true
ManifestSupportedOS all
InstallDir "$LOCALAPPDATA\Programs\${NAME}"
InstallDirRegKey HKCU "${UNINSTALL}" "InstallLocation"
; Windows requires four numbers; a pre-release (1.0.0rc1) has those of its release.
!searchparse "${VERSION}rc" "" NUMBERS "rc"
VIProductVersion "${NUMBERS}.0"
VIAddVersionKey "ProductName" "${NAME}"
VIAddVersionKey "ProductVersion" "${VERSION}"
VIAddVersionKey "FileVersion" "${VERSION}"
VIAddVersionKey "FileDescription" "Installs ${NAME}"
VIAddVersionKey "LegalCopyright" "Apache License 2.0"

; Drawn beside the icon (packaging/icons/draw).
!searchreplace PICTURE "${ICON}" ".ico" ".bmp"
!define MUI_ICON "${ICON}"
!define MUI_WELCOMEFINISHPAGE_BITMAP "${PICTURE}"
BrandingText "${NAME} ${VERSION}"
!define MUI_UNICON "${ICON}"
!insertmacro MUI_PAGE_LICENSE "../../LICENSE"
!define MUI_PAGE_CUSTOMFUNCTION_LEAVE OwnFolder
!insertmacro MUI_PAGE_DIRECTORY
!insertmacro MUI_PAGE_INSTFILES
!define MUI_FINISHPAGE_RUN "$INSTDIR\${TRAY}"
!define MUI_FINISHPAGE_RUN_PARAMETERS "tray --open"
!define MUI_FINISHPAGE_RUN_TEXT "Start ${NAME}"
!insertmacro MUI_PAGE_FINISH
!define MUI_UNCONFIRMPAGE_TEXT_TOP "Your mail, settings and backups stay in $LOCALAPPDATA\${PROGRAM}. Only the program is removed."
!insertmacro MUI_UNPAGE_CONFIRM
!insertmacro MUI_UNPAGE_INSTFILES
!insertmacro MUI_LANGUAGE "English"

Var wasRunning

Function .onInit
  ${IfNot} ${AtLeastWin10}
    MessageBox MB_OK|MB_ICONSTOP "${NAME} needs Windows 10 or later." /SD IDOK
    SetErrorLevel 2
    Quit
  ${EndIf}
  Call OwnFolder
FunctionEnd

; If the folder has other contents, install into a subfolder: the uninstaller removes the contents of its folder.
Function OwnFolder
  ${DirState} "$INSTDIR" $0
  ${If} $0 = 1
  ${AndIfNot} ${FileExists} "$INSTDIR\${CONSOLE}"
    StrCpy $INSTDIR "$INSTDIR\${NAME}"
  ${EndIf}
FunctionEnd

; Windows does not allow writing to a running program. Sets $0 to 1 if one of ours is running.
!macro FIND_RUNNING un
Function ${un}FindRunning
  StrCpy $0 0
  ${If} ${FileExists} "$INSTDIR\${TRAY}"
    ClearErrors
    FileOpen $1 "$INSTDIR\${TRAY}" a
    ${If} ${Errors}
      StrCpy $0 1
    ${Else}
      FileClose $1
    ${EndIf}
  ${EndIf}
  ${If} ${FileExists} "$INSTDIR\${CONSOLE}"
    ClearErrors
    FileOpen $1 "$INSTDIR\${CONSOLE}" a
    ${If} ${Errors}
      StrCpy $0 1
    ${Else}
      FileClose $1
    ${EndIf}
  ${EndIf}
FunctionEnd
!macroend

; Stops the tray icon and the service in order, as "Quit" does. If a program still runs, for example for another data directory,
; the user is asked to close it; a silent installation changes nothing then.
!macro END_RUNNING un
Function ${un}EndRunning
  ${If} ${FileExists} "$INSTDIR\${CONSOLE}"
    Call ${un}FindRunning
    StrCpy $wasRunning $0
    DetailPrint "Stopping ${NAME} if it is running"
    nsExec::ExecToLog /TIMEOUT=60000 '"$INSTDIR\${CONSOLE}" tray --quit'
    Pop $0
  ${EndIf}
  again:
  StrCpy $2 0
  ${Do}
    Call ${un}FindRunning
    ${If} $0 = 0
      Return
    ${EndIf}
    Sleep 500
    IntOp $2 $2 + 1
  ${LoopUntil} $2 >= 30
  MessageBox MB_RETRYCANCEL|MB_ICONEXCLAMATION "${NAME} is still running. Choose Quit in the menu of its tray icon, close its windows, and try again." /SD IDCANCEL IDRETRY again
  SetErrorLevel 2
  Abort "${NAME} is still running; nothing was changed."
FunctionEnd
!macroend

!insertmacro FIND_RUNNING ""
!insertmacro FIND_RUNNING "un."
!insertmacro END_RUNNING ""
!insertmacro END_RUNNING "un."

Section
  Call EndRunning
  ; Never mix the files of two releases: remove those of the previous one first, or change nothing.
  ${If} ${FileExists} "$INSTDIR\_internal\*.*"
    RMDir /r "$INSTDIR\_internal.old"
    ClearErrors
    Rename "$INSTDIR\_internal" "$INSTDIR\_internal.old"
    ${If} ${Errors}
      SetErrorLevel 2
      Abort "Files of ${NAME} are in use; nothing was changed."
    ${EndIf}
  ${EndIf}
  SetOutPath "$INSTDIR"
  File /r /x "THIRD-PARTY.txt" "${BUNDLE}/*"
  File "/oname=LICENSE.txt" "../../LICENSE"
  File "${BUNDLE}/_internal/THIRD-PARTY.txt"
  RMDir /r "$INSTDIR\_internal.old"
  WriteUninstaller "$INSTDIR\uninstall.exe"

  CreateDirectory "$SMPROGRAMS\${NAME}"
  CreateShortcut "$SMPROGRAMS\${NAME}\${NAME}.lnk" "$INSTDIR\${TRAY}" "tray --open"
  CreateShortcut "$SMPROGRAMS\${NAME}\Command line.lnk" "$SYSDIR\cmd.exe" '/K set "PATH=$INSTDIR;%PATH%"' "$INSTDIR\${CONSOLE}"

  WriteRegStr HKCU "${UNINSTALL}" "DisplayName" "${NAME}"
  WriteRegStr HKCU "${UNINSTALL}" "DisplayVersion" "${VERSION}"
  WriteRegStr HKCU "${UNINSTALL}" "DisplayIcon" "$INSTDIR\${TRAY}"
  WriteRegStr HKCU "${UNINSTALL}" "Publisher" "The authors of mailbox-appliance"
  WriteRegStr HKCU "${UNINSTALL}" "InstallLocation" "$INSTDIR"
  WriteRegStr HKCU "${UNINSTALL}" "UninstallString" '"$INSTDIR\uninstall.exe"'
  WriteRegStr HKCU "${UNINSTALL}" "QuietUninstallString" '"$INSTDIR\uninstall.exe" /S'
  WriteRegDWORD HKCU "${UNINSTALL}" "NoModify" 1
  WriteRegDWORD HKCU "${UNINSTALL}" "NoRepair" 1
  ${GetSize} "$INSTDIR" "/S=0K" $0 $1 $2
  WriteRegDWORD HKCU "${UNINSTALL}" "EstimatedSize" $0

  ; A silent upgrade restarts the program if it was running.
  ${If} ${Silent}
  ${AndIf} $wasRunning = 1
    Exec '"$INSTDIR\${TRAY}" tray'
  ${EndIf}
SectionEnd

Section Uninstall
  Call un.EndRunning
  DeleteRegValue HKCU "${RUN}" "${RUN_NAME}"
  DeleteRegValue HKCU "${APPROVED}" "${RUN_NAME}"
  DeleteRegKey HKCU "${UNINSTALL}"
  RMDir /r "$SMPROGRAMS\${NAME}"
  ; Delete by name, never the whole folder, which may contain other files.
  RMDir /r "$INSTDIR\_internal"
  RMDir /r "$INSTDIR\_internal.old"
  Delete "$INSTDIR\${CONSOLE}"
  Delete "$INSTDIR\${TRAY}"
  Delete "$INSTDIR\LICENSE.txt"
  Delete "$INSTDIR\THIRD-PARTY.txt"
  Delete "$INSTDIR\uninstall.exe"
  RMDir "$INSTDIR"
SectionEnd
